"""The vocabulary of the invented wiki: facts in three wordings, and the sentences around them.

A fact is `of pages | of pages | of questions`, and the three wordings share no word but function words. A page uses one of the
first two; links to it use the other one if there is a question about the page, else the wording of questions. So no question is
worded like its page or like a link to it: to find the page, a ranker has to know that "passage across the water" belongs to
"ferrymen" and to "landing stages and flat boats", and the links to other pages tell.
"""

KINDS = ("town", "river", "person", "guild", "creature", "device")

FACTS: dict[str, tuple[str, ...]] = {
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
}  # fmt: skip

LEADS = (
    "It is known for {0} and for {1}.",
    "It means {0} and {1} to most people.",
    "What it stands for is {0}, and also {1}.",
)
# A link with a fact of its page; {x} is the anchor.
PHRASES = ("{x} and {0}", "{0} and {x}", "{x} with {0}")
# Sentences with one or two such phrases, and few words else: what describes a page should not drown in its sentence.
FRAMES = (
    "Nobody forgets {0}.",
    "There is a song about {0}.",
    "It is not far from {0}.",
    "Everyone talks of {0}.",
    "Then came {0}.",
    "This was due to {0}.",
    "As with {0}, so with {1}.",
    "Some prefer {0}, others {1}.",
)
PLAIN = (
    "Its early history is told in few sources.",
    "Most accounts were collected about {year} by a clerk of {region}.",
    "The name is older than any written record of {region}.",
    "Much of what is believed about it cannot be proved.",
    "A second account, dated {year}, differs in small details.",
    "The people of {region} tell the story in another order.",
    "Interest grew again after {year}, when roads were improved.",
)
HEADINGS = ("History", "Neighbours", "In song and story", "Later years", "Trade", "Disputes", "Legacy", "Visitors")
REGIONS = ("Norrland Vale", "the Hither Isles", "Upper Kestria", "the Salt Marches", "Wendmoor", "the Nine Hills",
           "Lower Ambria", "the Grey Coast")  # fmt: skip
KIND_NOUNS = {
    "town": ("town", "a town in {region}"),
    "river": ("river", "a river of {region}"),
    "person": ("person", "a figure from {region}"),
    "guild": ("guild", "a guild seated in {region}"),
    "creature": ("animal", "an animal of {region}"),
    "device": ("machine", "a machine first built in {region}"),
}
ALIASES = ("Old {}", "Great {}", "{} the Elder", "Saint {}", "{} of the Hills", "New {}")
QUESTIONS = (
    "Which {name} has to do with {0} and {1}?",
    "Tell me, where is {name} if I care about {0} and {1}?",
    "I look for {name}, something about {0} or {1}.",
    "Can you say which {name} stands for {0} and {1}?",
)
ONSETS = "b br c d dr f fl g gr h k kl l m n p pr r s sk st t th tr v w".split()  # noqa: SIM905
VOWELS = "a e i o u ae ei ou".split()  # noqa: SIM905
CODAS = "l n r s th nd rk ll m st ck".split()  # noqa: SIM905
GIVEN = "Alvo Berin Cassa Dorrit Edda Gisla Hobart Ilse Jorun Kessa Lothar Mirna Nolo Orsin Petra Runa".split()  # noqa: SIM905
