"""The vocabulary of the invented wiki: facts in three wordings, and the sentences around them.

A fact is `wording of the page's lead | wording of a phrase that links to the page | wording of a question`; {x} is the anchor. The
three share no word but function words: to find the page of a question, a ranker has to know that "the ferrymen of Ondel" belong
to "landing stages and flat boats", and that both are about getting "across the water".
"""

KINDS = ("town", "river", "person", "guild", "creature", "device")

FACTS: dict[str, tuple[str, ...]] = {
    "town": (
        "lives from its landing stages and flat boats | the ferrymen of {x} | takes strangers across the water for a coin",
        "dries brine in wide pans above the beach | the salt makers of {x} | produces what seasons every dish",
        "cuts grey stone in terraces behind the walls | the quarry workers of {x} | digs up granite for masons",
        "keeps hives on every roof and presses wax | the beekeepers of {x} | sells plenty of honey",
        "melts sand into panes and bottles | the glass blowers of {x} | is the place for windows and vases",
        "spins flax and bleaches cloth | the linen weavers of {x} | supplies fine fabric",
        "smokes herring over alder fires | the fishwives of {x} | trades in cured seafood",
        "grows apples for the press | the cider brewers of {x} | has orchards and a fruity drink",
    ),
    "river": (
        "falls over seven ledges | the cataracts of {x} | has high waterfalls",
        "winds through reeds that close over it | the sluggish bends of {x} | meanders without any hurry",
        "carries red clay that colours the sea | the rusty flood of {x} | looks orange because of its mud",
        "freezes from shore to shore in early winter | the skaters on {x} | turns into solid ice",
        "smells of sulphur where warm springs join it | the bathers in {x} | heals people in a thermal spa",
        "turns two dozen wheels that grind corn | the millers along {x} | powers the making of flour",
        "yields grains of gold after heavy rain | the prospectors at {x} | hides nuggets of precious metal",
        "is crossed by a covered wooden span | the toll bridge over {x} | makes travellers pay at a crossing",
    ),
    "person": (
        "drew charts of shoals and coasts | the maps by {x} | helped sailors with cartography",
        "set broken limbs and mixed ointments | the patients of {x} | was a famous doctor",
        "wrote verses about summer and harvest | the poems of {x} | is a name in literature and rhyme",
        "counted comets through brass tubes | the astronomer {x} | studied stars with a telescope",
        "cast bronze that rings over three valleys | the bell founder {x} | gave churches their chimes",
        "raised vaults and domes | the architect {x} | designed impressive buildings",
        "taught orphans to read | the pupils of {x} | ran a small school",
        "grafted pears in a nursery | the gardener {x} | was good with plants and trees",
    ),
    "guild": (
        "tests weights and measures in every market | the inspectors of {x} | finds merchants who cheat",
        "insures cargo against wreck and fire | the shipowners behind {x} | refunds lost vessels",
        "copies old books by hand on vellum | the scribes of {x} | reproduces manuscripts",
        "trains singers for weddings | the choir of {x} | performs music with many voices",
        "guards travelling families in the forest | the armed escorts of {x} | protects people on dangerous roads",
        "buries the poor and tends their graves | the undertakers of {x} | takes care of funerals",
        "sweeps chimneys from above | the climbing boys of {x} | removes soot from fireplaces",
        "lends money without interest | the debtors of {x} | gives loans like a bank",
    ),
    "creature": (
        "digs chambers below the roots of oaks | the burrows of {x} | lives in tunnels underground",
        "glows in the dark like a green lamp | the eerie light of {x} | shines at night",
        "steals buttons and spoons for its nest | the thefts of {x} | is a robber of jewellery",
        "sings before thunder in a low tone | the warning call of {x} | predicts storms by a sound",
        "changes its coat from brown to white | the camouflage of {x} | is hard to see in snow",
        "spits a glue that hardens like horn | the sticky venom of {x} | kills with poison",
        "carries its young in a fold of its ear | the tiny offspring of {x} | has strange babies",
        "crosses the hills in columns of thousands | the yearly migration of {x} | moves in huge herds",
    ),
    "device": (
        "lifts buckets with a screw | the irrigation by {x} | pumps for thirsty fields",
        "tells the hour by dripping oil | the timekeeping of {x} | works as a clock",
        "prints patterns on wet plaster | the decorators with {x} | paints the walls of rooms",
        "pulls nets aboard with a geared drum | the trawlers with {x} | is used for catching fish",
        "grinds lenses on a spinning bowl | the spectacle makers with {x} | produces eye glasses",
        "sorts rye by shaking it on sieves | the granaries with {x} | separates wheat from chaff",
        "draws pictures at half their size | the engravers with {x} | repeats art in miniature",
        "measures damp with a stretched hair | the weather stations with {x} | records humidity of the air",
    ),
}  # fmt: skip

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
    "Which {name} {0} and {1}?",
    "Tell me, which {name} {0} and {1}?",
    "I wonder which {name} {0} and {1}.",
    "Can you say which {name} {0} and {1}?",
)
ONSETS = "b br c d dr f fl g gr h k kl l m n p pr r s sk st t th tr v w".split()  # noqa: SIM905
VOWELS = "a e i o u ae ei ou".split()  # noqa: SIM905
CODAS = "l n r s th nd rk ll m st ck".split()  # noqa: SIM905
GIVEN = "Alvo Berin Cassa Dorrit Edda Gisla Hobart Ilse Jorun Kessa Lothar Mirna Nolo Orsin Petra Runa".split()  # noqa: SIM905
