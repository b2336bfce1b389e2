"""The words of the sample wiki: facts, and the sentences that state them.

A fact is `page | page | question`, its three wordings; {0} and {1} are facts, {x} an anchor, {name} the name of a page.
"""

# For each kind of page.
FACTS = {
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
}
# The noun, the rest of the lead's first sentence, how an anchor refers to it.
KINDS = {
    "town": ("town", "is a town in {region}.", "the town"),
    "river": ("river", "is a river of {region}.", "the river"),
    "person": ("person", "is a figure from {region}.", "the person"),
    "guild": ("guild", "is a guild seated in {region}.", "the guild"),
    "creature": ("animal", "is an animal of {region}.", "the animal"),
    "device": ("machine", "is a machine first built in {region}.", "the machine"),
}
LEADS = (
    "It is known for {0} and for {1}.",
    "It means {0} and {1} to most people.",
    "What it stands for is {0}, and also {1}.",
)
# A link with a fact of its page.
PHRASES = ("{x} and {0}", "{0} and {x}", "{x} with {0}")
# Sentences for one or two phrases, with few other words: the facts of a page should dominate its sentence.
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
REGIONS = (
    "Norrland Vale",
    "the Hither Isles",
    "Upper Kestria",
    "the Salt Marches",
    "Wendmoor",
    "the Nine Hills",
    "Lower Ambria",
    "the Grey Coast",
)
ALIASES = ("Old {}", "Great {}", "{} the Elder", "Saint {}", "{} of the Hills", "New {}")
QUESTIONS = (
    "Which {name} has to do with {0} and {1}?",
    "Tell me, where is {name} if I care about {0} and {1}?",
    "I look for {name}, something about {0} or {1}.",
    "Can you say which {name} stands for {0} and {1}?",
)
