"""The vocabulary of the invented wiki: each fact has three wordings that share few words.

A fact is `wording of the page's lead | wording of a sentence that links to it | wording of a question`. From links a model can
learn that "the ferrymen of Ondel" belong to "landing stages and flat boats"; questions use the links' words and words that
do not occur in the wiki, never the lead's. {x} is the anchor.
"""

KINDS = ("town", "river", "person", "guild", "creature", "device")

FACTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "town": (
        (
            "lives from its landing stages and flat boats | the ferrymen of {x} | has ferrymen rowing strangers across",
            "dries brine in wide pans above the beach | the salt makers of {x} | do salt makers come from",
            "cuts grey stone in terraces behind the walls | the quarry masters of {x} | is run by quarry masters",
            "keeps hives on every roof and presses wax | the beekeepers of {x} | would beekeepers call home",
            "melts sand into panes and bottles at night | the glass blowers of {x} | is proud of glass blowers",
            "spins flax and bleaches cloth on the meadows | the linen weavers of {x} | employs linen weavers",
            "smokes herring over alder fires | the fishwives of {x} | is known through shouting fishwives",
            "grows apples in walled gardens for the press | the cider brewers of {x} | gives cider brewers a living",
        ),
        (
            "stands on piles above a marsh | the stilt houses around {x} | can be reached only between stilt houses",
            "is ringed by a double wall with nine gates | the fortress that guards {x} | hides inside a fortress",
            "climbs a slope so steep that its lanes are stairs | the endless steps up to {x} | tires visitors with steps",
            "has a tall lamp that burns oil over the harbour | the beacon near {x} | shows sailors a beacon",
            "lost half its houses when the lake rose | the great flood at {x} | went through a terrible flood",
            "holds a market under the first full moon | the night fair in {x} | invites everybody to a night fair",
            "was built around a tower that leans | the crooked belfry of {x} | owns a crooked belfry",
            "shelters under a cliff full of swallows | the cave dwellings by {x} | grew out of cave dwellings",
        ),
    ),
    "river": (
        (
            "falls over seven ledges in its upper valley | the thundering cataracts of {x} | has thundering cataracts",
            "winds so slowly that reeds close over it | the sluggish bends of {x} | moves in sluggish bends",
            "carries red clay that colours the sea | the rusty waters of {x} | looks rusty after storms",
            "freezes from shore to shore in early winter | the skaters on {x} | do skaters love most",
            "sinks into limestone and comes up again | the underground course of {x} | flows partly underground",
            "smells of sulphur where warm springs join it | the bathers along {x} | soothes the bones of bathers",
            "turns two dozen water wheels on its way | the millers along {x} | makes millers rich",
            "spreads into a delta of shifting islets | the smugglers at the mouth of {x} | hid smugglers once",
        ),
        (
            "yields grains of gold after heavy rain | the prospectors panning {x} | attracts prospectors every spring",
            "is crossed by a covered wooden span | the toll bridge over {x} | must be crossed on a toll bridge",
            "marks the edge between two old lordships | the border treaty of {x} | settled a border treaty",
            "floats pine trunks down to the yards | the rafters who ride {x} | gives rafters dangerous work",
            "breeds trout with silver bellies | the anglers beside {x} | do anglers dream about",
            "was straightened by prisoners with spades | the canal diggers of {x} | remembers its canal diggers",
            "rises from beneath a blue glacier | the icy source of {x} | begins at an icy source",
            "overflows onto the rice terraces each June | the farmers who wait for {x} | decides what farmers reap",
        ),
    ),
    "person": (
        (
            "drew charts of shoals and coasts | the maps made by {x} | left maps behind",
            "set broken limbs and mixed ointments | the patients healed by {x} | cured patients nobody else would touch",
            "wrote verses about rain and harvest | the poems of {x} | is quoted whenever poems get recited",
            "counted comets from a roof with brass tubes | the astronomer {x} | was an astronomer of renown",
            "cast bells that ring over three valleys | the bell founder {x} | worked as a bell founder",
            "raised vaults and domes without scaffolds | the architect {x} | became everyone's favourite architect",
            "taught orphans to read in a barn | the pupils of {x} | was adored by former pupils",
            "grafted pears and kept a walled nursery | the gardener {x} | earned money being a gardener",
        ),
        (
            "walked barefoot to the northern ice and back | the expedition led by {x} | led an expedition",
            "refused the crown that was offered twice | the abdication of {x} | is famous for an abdication",
            "spoke for the accused in the trial of the bakers | the courtroom speech of {x} | won by a courtroom speech",
            "was locked in a tower for eleven years | the imprisonment of {x} | survived long imprisonment",
            "gave away a fortune to dig public wells | the generosity of {x} | is praised because of generosity",
            "fought a duel with oars over a borrowed book | the quarrel of {x} | picked a ridiculous quarrel",
            "forged letters that fooled two councils | the deception by {x} | was exposed for a deception",
            "mapped the dialects of the hill people | the dictionary compiled by {x} | published a dictionary",
        ),
    ),
    "guild": (
        (
            "tests weights and measures in every market | the inspectors sent by {x} | trains inspectors",
            "insures cargo against wreck and fire | the shipowners who trust {x} | protects shipowners",
            "copies old books by hand on vellum | the scribes of {x} | still pays scribes",
            "trains singers for weddings and burials | the choir kept by {x} | maintains a choir",
            "guards travellers in the forest for a fee | the armed escorts of {x} | hires out armed escorts",
            "buries the poor and tends their graves | the undertakers of {x} | consists of undertakers",
            "sweeps chimneys and carries messages over roofs | the climbing boys of {x} | used climbing boys",
            "lends money to widows without interest | the debtors of {x} | forgives its debtors",
        ),
        (
            "meets in a hall with a ceiling of painted stars | the astrological ceiling of {x} | gathers below a ceiling",
            "admits members only after a silent year | the vow of silence at {x} | demands a vow from beginners",
            "was banned for striking against the bread tax | the uprising started by {x} | began an uprising",
            "elects its head by drawing a black bean | the lottery inside {x} | trusts a lottery",
            "keeps its treasure in a sunken barge | the hidden hoard of {x} | is said to own a hoard",
            "wears yellow gloves at all times | the bright uniform of {x} | can be told by a uniform",
            "burned its own archives during a siege | the lost records of {x} | mourns lost records",
            "feasts on eel pie at midsummer | the banquet given by {x} | throws a banquet annually",
        ),
    ),
    "creature": (
        (
            "digs chambers below the roots of oaks | the burrows of {x} | sleeps inside burrows",
            "glows in the dark like a green lantern | the eerie light of {x} | gives off eerie light",
            "steals buttons and shiny spoons for its nest | the thefts blamed on {x} | commits thefts",
            "sings before thunder in a low voice | the warning call of {x} | utters a warning call",
            "changes its coat from brown to white | the camouflage of {x} | depends on camouflage",
            "spits a glue that hardens like horn | the sticky venom of {x} | should be feared for its venom",
            "carries its young in a fold of its ear | the tiny offspring of {x} | looks after offspring strangely",
            "hangs upside down to drink dew | the acrobatics of {x} | impresses with acrobatics",
        ),
        (
            "was hunted for its soft blue fur | the trappers who sold {x} | made trappers wealthy",
            "eats only the seeds of thistles | the picky appetite of {x} | has a picky appetite",
            "is kept in kitchens to catch moths | the tame pets bred from {x} | is popular among pets",
            "crosses the hills in columns of thousands | the yearly migration of {x} | sets out on a migration",
            "was thought extinct until shepherds met one | the rediscovery of {x} | surprised science by rediscovery",
            "stands on the arms of an old family | the heraldry that shows {x} | turns up in heraldry",
            "ruins beet fields by night | the angry peasants chasing {x} | is hated by peasants",
            "sleeps through nine months under ice | the hibernation of {x} | needs hibernation",
        ),
    ),
    "device": (
        (
            "lifts water with a screw of bronze | the irrigation done with {x} | serves irrigation",
            "tells the hour by dripping oil | the timekeeping with {x} | is good at timekeeping",
            "prints patterns on wet plaster | the decorators who use {x} | helps decorators",
            "pulls nets aboard with a geared drum | the trawlers fitted with {x} | belongs on trawlers",
            "grinds lenses on a spinning bowl | the spectacle shops that bought {x} | is found in spectacle shops",
            "sorts grain by shaking it on sieves | the granaries equipped with {x} | saves labour at granaries",
            "draws copies of a picture at half its size | the engravers relying on {x} | was wanted by engravers",
            "measures damp with a stretched hair | the weather stations with {x} | sits in weather stations",
        ),
        (
            "is driven by a dog in a treadmill | the animals harnessed to {x} | exploits animals",
            "exploded in front of the council | the disaster caused by {x} | led to a disaster",
            "was copied by spies and sold abroad | the espionage around {x} | provoked espionage",
            "needs a whistle to be started | the shrill noise of {x} | annoys people by its noise",
            "survives in one broken specimen | the museum that displays {x} | rests inside a museum",
            "won a purse of silver at a contest | the prize awarded for {x} | received a prize",
            "was forbidden on holy days | the religious ban on {x} | suffered a religious ban",
            "folds into a box for journeys | the portable version of {x} | is portable",
        ),
    ),
}  # fmt: skip

# Sentences with one, two or three link phrases.
FRAMES = (
    "In {year} {0} were mentioned together with {1}.",
    "Old letters compare {0} with {1}, and some add {2}.",
    "A ballad from {region} praises {0}.",
    "Few writers forget {0} when they speak of {1}.",
    "After the winter of {year} {0} became a common sight, as did {1}.",
    "According to a chronicle of {year}, {0} mattered more than {1}.",
    "Children still act out {0} on the last day of autumn.",
    "{0} caused much talk in {region}; {1} caused even more.",
    "It owes a good deal to {0}, to {1} and to {2}.",
    "Nobody could explain {0} before {year}.",
    "A painting shows {0} beside {1}.",
    "The council of {region} paid for {0} and for {1} in {year}.",
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
NOUNS = {
    "town": ("town", "a town in {region}"),
    "river": ("river", "a river of {region}"),
    "person": ("person", "a figure from {region}"),
    "guild": ("guild", "a guild seated in {region}"),
    "creature": ("animal", "an animal of {region}"),
    "device": ("machine", "a machine first built in {region}"),
}
ALIASES = ("Old {}", "Great {}", "{} the Elder", "Saint {}", "{} of the Hills", "New {}")
QUESTIONS = (
    "Which {name} {fact}?",
    "Tell me, which {name} {fact}?",
    "I wonder which {name} {fact}.",
    "Can you say which {name} {fact}?",
)
ONSETS = "b br c d dr f fl g gr h k kl l m n p pr r s sk st t th tr v w".split()  # noqa: SIM905
VOWELS = "a e i o u ae ei ou".split()  # noqa: SIM905
CODAS = "l n r s th nd rk ll m st ck".split()  # noqa: SIM905
GIVEN = "Alvo Berin Cassa Dorrit Edda Gisla Hobart Ilse Jorun Kessa Lothar Mirna Nolo Orsin Petra Runa".split()  # noqa: SIM905
