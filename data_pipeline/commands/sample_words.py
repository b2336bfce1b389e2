"""The words of `harp sample-wiki` in English and German: facts, and the sentences that state them."""

from typing import NamedTuple


class Words(NamedTuple):
    """The words and sentence patterns of pages and questions in one language.

    A fact is `page | page | question`, its three wordings; {0} and {1} are facts, {x} an anchor, {name} the name of a page.
    """

    facts: dict[str, tuple[str, ...]]  # for each kind of page
    kinds: dict[str, tuple[str, str, str]]  # the noun, the definition in the lead, and how an anchor refers to it
    the: str  # before the names of things in anchors
    leads: tuple[str, ...]
    phrases: tuple[str, ...]  # a link with a fact of its page
    # Sentences for one or two phrases, with few other words: the facts of a page should dominate its sentence.
    frames: tuple[str, ...]
    plain: tuple[str, ...]
    headings: tuple[str, ...]
    regions: tuple[str, ...]
    aliases: tuple[str, ...]
    questions: tuple[str, ...]
    namespaces: dict[str, int]
    redirect: str
    see: str  # heading of the section with further links
    means: str  # on a disambiguation page
    talk: str

    def space(self, number: int) -> str:
        """The name of a namespace."""
        return next(name for name, each in self.namespaces.items() if each == number)


ENGLISH = Words(
    facts={
        "town": (
            "landing stages and flat boats | ferrymen | passage across the water",
            "brine in wide pans | salt makers | seasoning from the sea",
            "grey stone in terraces | quarry workers | granite for masons",
            "hives on every roof | beekeepers | honey and wax",
            "sand melted into panes | glass blowers | windows and vases",
            "flax and bleached cloth | linen weavers | fine fabric",
            "herring over alder fires | fishwives | cured seafood",
            "apples for the press | cider brewers | orchards and a fruity drink",
        ),
        "river": (
            "seven steep ledges | cataracts | waterfalls",
            "reeds in every curve | sluggish bends | a course without any hurry",
            "red clay | rusty floods | orange mud",
            "frozen shores | skaters | solid ice",
            "sulphur and warm springs | bathers | a thermal spa",
            "wheels that grind corn | millers | the making of flour",
            "grains of gold | prospectors | nuggets of precious metal",
            "a covered wooden span | a toll bridge | payment at a crossing",
        ),
        "person": (
            "charts of shoals and coasts | maps for sailors | cartography",
            "broken limbs and ointments | patients | the work of a doctor",
            "verses about summer | poems | literature and rhyme",
            "comets in brass tubes | astronomy | stars through a telescope",
            "bronze cast for towers | a bell foundry | church chimes",
            "vaults and domes | architecture | the design of buildings",
            "reading lessons for orphans | pupils | a small school",
            "grafted pears | gardening | plants and trees",
        ),
        "guild": (
            "weights and measures | inspectors | merchants who cheat",
            "cargo saved from wreck | shipowners | refunds for lost vessels",
            "books copied on vellum | scribes | manuscripts",
            "singers at weddings | a choir | music with many voices",
            "guards in the forest | armed escorts | protection on dangerous roads",
            "graves of the poor | undertakers | funerals",
            "swept chimneys | climbing boys | the removal of soot",
            "money without interest | debtors | loans like those of a bank",
        ),
        "creature": (
            "chambers below oaks | burrows | tunnels underground",
            "a glow like a green lamp | an eerie light | shining at night",
            "stolen buttons and spoons | thefts | robbed jewellery",
            "songs before thunder | a warning call | the prediction of storms",
            "a coat that turns from brown to white | camouflage | hiding in snow",
            "spitting of glue | sticky venom | deadly poison",
            "young in a fold of its ear | tiny offspring | strange babies",
            "columns of thousands | a yearly migration | huge moving herds",
        ),
        "device": (
            "buckets lifted by a screw | irrigation | pumping for thirsty fields",
            "dripping oil | timekeeping | a clock",
            "patterns on wet plaster | decorators | painted rooms",
            "nets on a geared drum | trawlers | the catching of fish",
            "lenses on a spinning bowl | spectacle makers | eye glasses",
            "rye shaken on sieves | granaries | wheat and chaff",
            "pictures at half their size | engravers | art in miniature",
            "a stretched hair | weather stations | humidity of the air",
        ),
    },
    kinds={
        "town": ("town", "is a town in {region}", "the town"),
        "river": ("river", "is a river of {region}", "the river"),
        "person": ("person", "is a figure from {region}", "the person"),
        "guild": ("guild", "is a guild seated in {region}", "the guild"),
        "creature": ("animal", "is an animal of {region}", "the animal"),
        "device": ("machine", "is a machine first built in {region}", "the machine"),
    },
    the="the ",
    leads=(
        "It is known for {0} and for {1}.",
        "It means {0} and {1} to most people.",
        "What it stands for is {0}, and also {1}.",
    ),
    phrases=(
        "{x} and {0}",
        "{0} and {x}",
        "{x} with {0}",
    ),
    frames=(
        "Nobody forgets {0}.",
        "There is a song about {0}.",
        "It is not far from {0}.",
        "Everyone talks of {0}.",
        "Then came {0}.",
        "This was due to {0}.",
        "As with {0}, so with {1}.",
        "Some prefer {0}, others {1}.",
    ),
    plain=(
        "Its early history is told in few sources.",
        "Most accounts were collected about {year} by a clerk of {region}.",
        "The name is older than any written record of {region}.",
        "Much of what is believed about it cannot be proved.",
        "A second account, dated {year}, differs in small details.",
        "The people of {region} tell the story in another order.",
        "Interest grew again after {year}, when roads were improved.",
    ),
    headings=(
        "History",
        "Neighbours",
        "In song and story",
        "Later years",
        "Trade",
        "Disputes",
        "Legacy",
        "Visitors",
    ),
    regions=(
        "Norrland Vale",
        "the Hither Isles",
        "Upper Kestria",
        "the Salt Marches",
        "Wendmoor",
        "the Nine Hills",
        "Lower Ambria",
        "the Grey Coast",
    ),
    aliases=(
        "Old {}",
        "Great {}",
        "{} the Elder",
        "Saint {}",
        "{} of the Hills",
        "New {}",
    ),
    questions=(
        "Which {name} has to do with {0} and {1}?",
        "Tell me, where is {name} if I care about {0} and {1}?",
        "I look for {name}, something about {0} or {1}.",
        "Can you say which {name} stands for {0} and {1}?",
    ),
    namespaces={"Talk": 1, "File": 6, "Template": 10, "Category": 14},
    redirect="REDIRECT",
    see="See also",
    means="may mean",
    talk="Is this",
)

GERMAN = Words(
    facts={
        "town": (
            "Anlegestellen und flache Kähne | Fährleute | die Überfahrt übers Wasser",
            "Sole in breiten Pfannen | Salzsieder | Gewürz aus dem Meer",
            "graue Terrassen aus Stein | Steinbrüche | Granit für Maurer",
            "Stöcke auf jedem Dach | Imker | Honig und Wachs",
            "geschmolzenen Sand in Scheiben | Glasbläser | Fenster und Vasen",
            "Flachs und gebleichte Tücher | Leinenweber | feine Stoffe",
            "Heringe über Erlenfeuern | Fischfrauen | haltbar gemachte Meerestiere",
            "Äpfel für die Presse | Mostkeltern | Obstgärten und ein fruchtiges Getränk",
        ),
        "river": (
            "sieben steile Stufen | Katarakte | Wasserfälle",
            "Schilf in jeder Kurve | träge Biegungen | einen Lauf ohne Eile",
            "roten Ton | rostige Fluten | orangen Schlamm",
            "gefrorene Ufer | Schlittschuhläufer | festes Eis",
            "Schwefel und warme Quellen | Badegäste | ein Thermalbad",
            "Räder, die Korn zerreiben | Müller | die Herstellung von Mehl",
            "Körner aus Gold | Schürfer | Klumpen von edlem Metall",
            "einen überdachten hölzernen Bogen | eine Zollbrücke | Bezahlung beim Überqueren",
        ),
        "person": (
            "Karten von Untiefen und Küsten | Seekarten | Kartografie",
            "gebrochene Glieder und Salben | Patienten | ärztliche Arbeit",
            "Verse über den Sommer | Gedichte | Literatur und Reime",
            "Kometen in Messingrohren | Astronomie | Sterne im Teleskop",
            "Bronze für Türme | eine Gießerei | Kirchenglocken",
            "Gewölbe und Kuppeln | Architektur | den Entwurf von Gebäuden",
            "Lesestunden für Waisen | Schüler | eine kleine Schule",
            "veredelte Birnen | Gartenbau | Pflanzen und Bäume",
        ),
        "guild": (
            "Gewichte und Maße | Prüfer | Händler, die betrügen",
            "aus Wracks gerettete Fracht | Reeder | Ersatz für verlorene Schiffe",
            "auf Pergament kopierte Bücher | Schreiber | Handschriften",
            "Sänger auf Hochzeiten | einen Chor | vielstimmige Musik",
            "Wachen im Wald | bewaffnetes Geleit | Schutz auf gefährlichen Straßen",
            "Gräber der Armen | Bestatter | Begräbnisse",
            "gefegte Kamine | kletternde Jungen | die Entfernung von Ruß",
            "Geld ohne Zinsen | Schuldner | Kredite wie von einer Bank",
        ),
        "creature": (
            "Kammern unter Eichen | Baue | Tunnel in der Erde",
            "ein Glimmen wie von grünen Lampen | unheimliches Licht | nächtliches Leuchten",
            "gestohlene Knöpfe und Löffel | Diebstähle | geraubten Schmuck",
            "Gesang vor dem Donner | Warnrufe | die Vorhersage von Stürmen",
            "ein Fell, das braun und weiß wird | Tarnung | Verstecken im Schnee",
            "Spucken von Leim | klebriges Gift | tödliche Toxine",
            "Junge in einer Falte des Ohrs | winzigen Nachwuchs | seltsame Babys",
            "Kolonnen von Tausenden | jährliche Wanderungen | riesige ziehende Herden",
        ),
        "device": (
            "Eimer an einer Schnecke | Bewässerung | Pumpen für durstige Felder",
            "tropfendes Öl | Zeitmessung | eine Uhr",
            "Muster auf nassem Putz | Dekorateure | bemalte Zimmer",
            "Netze auf einer Trommel | Trawler | den Fang von Fischen",
            "Linsen auf einer drehenden Schale | Brillenmacher | Sehhilfen",
            "Roggen auf Sieben | Kornspeicher | Weizen und Spreu",
            "Bilder in halber Größe | Kupferstecher | Miniaturkunst",
            "ein gespanntes Haar | Wetterwarten | Feuchtigkeit der Luft",
        ),
    },
    kinds={
        "town": ("Stadt", "ist eine Stadt in {region}", "die Stadt"),
        "river": ("Fluss", "ist ein Fluss in {region}", "der Fluss"),
        "person": ("Person", "ist eine Person aus {region}", "diese Person"),
        "guild": ("Zunft", "ist eine Zunft mit Sitz in {region}", "die Zunft"),
        "creature": ("Tier", "ist ein Tier in {region}", "das Tier"),
        "device": ("Maschine", "ist eine zuerst in {region} gebaute Maschine", "die Maschine"),
    },
    the="",
    leads=(
        "Bekannt ist es für {0} und für {1}.",
        "Den meisten bedeutet es {0} und {1}.",
        "Es steht für {0}, auch für {1}.",
    ),
    phrases=(
        "{x} und {0}",
        "{0} und {x}",
        "{x}, bekannt für {0}",
    ),
    frames=(
        "Niemand vergisst {0}.",
        "Es gibt ein Lied über {0}.",
        "Weit und breit kennt man {0}.",
        "Alle reden über {0}.",
        "Dann sah man {0}.",
        "Man erinnerte an {0}.",
        "Wie für {0}, so für {1}.",
        "Manche mögen {0}, andere {1}.",
    ),
    plain=(
        "Die frühe Geschichte ist nur aus wenigen Quellen bekannt.",
        "Die meisten Berichte sammelte um {year} ein Schreiber aus {region}.",
        "Der Name ist älter als jede Urkunde aus {region}.",
        "Vieles, was man darüber glaubt, lässt sich nicht beweisen.",
        "Ein zweiter Bericht von {year} weicht in Kleinigkeiten ab.",
        "In {region} erzählt man die Geschichte in anderer Reihenfolge.",
        "Nach {year}, als die Straßen besser wurden, wuchs das Interesse wieder.",
    ),
    headings=(
        "Geschichte",
        "Nachbarn",
        "In Lied und Sage",
        "Spätere Jahre",
        "Handel",
        "Streitfälle",
        "Erbe",
        "Besucher",
    ),
    regions=(
        "Nordtal",
        "Oberkestrien",
        "Salzmarsch",
        "Wendmoor",
        "Neunbergen",
        "Unterambrien",
        "Grauküste",
        "Hallinsel",
    ),
    aliases=(
        "Alt-{}",
        "Groß-{}",
        "{} der Ältere",
        "Sankt {}",
        "{} am Berg",
        "Neu-{}",
    ),
    questions=(
        "Welches {name} hat mit {0} und {1} zu tun?",
        "Wo finde ich {name}, wenn es um {0} und {1} geht?",
        "Ich suche {name}, etwas über {0} oder {1}.",
        "Welches {name} steht für {0} und {1}?",
    ),
    namespaces={"Diskussion": 1, "Datei": 6, "Vorlage": 10, "Kategorie": 14},
    redirect="WEITERLEITUNG",
    see="Siehe auch",
    means="steht für",
    talk="Ist das",
)

LANGUAGES = {"en": ENGLISH, "de": GERMAN}
