"""The words of the sample wiki in English, German and Japanese: facts, and the sentences that state them."""

from typing import NamedTuple


class Words(NamedTuple):
    """The words and sentence patterns of pages and questions in one language.

    A fact is `page | page | question`, its three wordings; {0} and {1} are facts, {x} an anchor, {name} the name of a page.
    """

    facts: dict[str, tuple[str, ...]]  # for each kind of page
    kinds: dict[
        str, tuple[str, str, str]
    ]  # the noun, the rest of the lead's first sentence, how an anchor refers to it
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
        "town": ("town", "is a town in {region}.", "the town"),
        "river": ("river", "is a river of {region}.", "the river"),
        "person": ("person", "is a figure from {region}.", "the person"),
        "guild": ("guild", "is a guild seated in {region}.", "the guild"),
        "creature": ("animal", "is an animal of {region}.", "the animal"),
        "device": ("machine", "is a machine first built in {region}.", "the machine"),
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
        "town": ("Stadt", "ist eine Stadt in {region}.", "die Stadt"),
        "river": ("Fluss", "ist ein Fluss in {region}.", "der Fluss"),
        "person": ("Person", "ist eine Person aus {region}.", "diese Person"),
        "guild": ("Zunft", "ist eine Zunft mit Sitz in {region}.", "die Zunft"),
        "creature": ("Tier", "ist ein Tier in {region}.", "das Tier"),
        "device": ("Maschine", "ist eine zuerst in {region} gebaute Maschine.", "die Maschine"),
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

JAPANESE = Words(
    facts={
        "town": (
            "桟橋と平底の舟 | 渡し守 | 川を越える交通",
            "広い釜に張った海水 | 塩職人 | 料理の味つけ",
            "段々に切られた灰色の岩 | 石切り場 | 花崗岩の建材",
            "屋根ごとの巣箱 | 養蜂家 | 蜂蜜と蝋",
            "溶かした砂の板 | ガラス吹き | 窓や花瓶",
            "亜麻と白くさらした反物 | 機織り | 上質な布地",
            "榛の火にかけたニシン | 魚売りの女たち | 燻製の海産物",
            "圧搾機に入れるリンゴ | 果実酒づくり | 果樹園と甘い飲料",
        ),
        "river": (
            "七つの急な段差 | 激しい早瀬 | 滝",
            "曲がり角に茂る葦 | のろい蛇行 | 急がない流れ",
            "赤い粘土 | 錆色の洪水 | 橙色の泥",
            "凍った岸辺 | スケートをする人々 | 厚い氷",
            "硫黄の湧き水 | 湯治客 | 温泉",
            "穀物をひく水車 | 粉屋 | 小麦粉の生産",
            "砂金の粒 | 鉱脈を探す男たち | 貴金属の塊",
            "屋根のある木の橋 | 料金所 | 通行のための支払い",
        ),
        "person": (
            "浅瀬と海岸の図 | 船乗りの地図 | 製図学",
            "折れた手足と軟膏 | 患者 | 医師の仕事",
            "夏をうたう韻文 | 詩 | 文学",
            "真鍮の筒で見た彗星 | 天文学 | 望遠鏡と星",
            "塔に吊るす青銅 | 鋳物工場 | 教会の鐘",
            "丸天井とドーム | 建築 | 建物の設計",
            "孤児に開いた読書の時間 | 生徒 | 小さな学校",
            "接ぎ木した梨 | 園芸 | 庭木や植物",
        ),
        "guild": (
            "分銅と物差し | 検査官 | ごまかす商人",
            "難破船から引き上げた荷 | 船主 | 沈没の補償",
            "羊皮紙に写した書物 | 書記 | 手書きの本",
            "婚礼の歌い手 | 合唱団 | 声を重ねる音楽",
            "森の見張り | 武装した護衛 | 危ない道での安全",
            "貧しい人々の墓 | 葬儀屋 | 埋葬",
            "掃除した煙突 | 壁をよじ登る少年 | 煤の除去",
            "利子のない金 | 借り手 | 銀行のような融資",
        ),
        "creature": (
            "樫の根元の部屋 | 巣穴 | 地下のトンネル",
            "緑のランプのような輝き | 不気味な光 | 夜の発光",
            "盗んだボタンとスプーン | 泥棒の癖 | 奪われた宝石",
            "雷の前の歌 | 警告の叫び | 嵐の予知",
            "茶から白に変わる毛 | 擬態 | 雪に隠れること",
            "吐き出すにかわ | 粘る毒 | 命にかかわる物質",
            "耳のひだで育つ子 | ごく小さな赤ん坊 | 珍しい子育て",
            "数千匹の行列 | 毎年の旅 | 大群の移動",
        ),
        "device": (
            "らせんに付けたバケツ | 灌漑 | 畑へのポンプ",
            "したたる油 | 時間の測定 | 時計",
            "濡れた漆喰の模様 | 内装の職人 | 部屋の絵",
            "巻き胴にかけた網 | トロール船 | 漁業",
            "回る皿の上のレンズ | 眼鏡屋 | 視力の補助",
            "ふるいにかけたライ麦 | 倉庫番 | もみ殻を除くこと",
            "半分に縮めた図柄 | 銅版画家 | 細密な美術",
            "張りつめた髪の毛 | 気象台 | 空気の湿り気",
        ),
    },
    kinds={
        "town": ("町", "は{region}の町である。", "その町"),
        "river": ("川", "は{region}を流れる川である。", "その川"),
        "person": ("人物", "は{region}出身の人物である。", "この人物"),
        "guild": ("組合", "は{region}に本部を置く組合である。", "その組合"),
        "creature": ("動物", "は{region}に住む動物である。", "その動物"),
        "device": ("機械", "は{region}で初めて作られた機械である。", "その機械"),
    },
    the="",
    leads=(
        "{0}と{1}で知られる。",
        "多くの人が{0}や{1}を思い浮かべる。",
        "{0}のほか、{1}でも名高い。",
    ),
    phrases=(
        "{x}と{0}",
        "{0}の{x}",
        "{0}で知られる{x}",
    ),
    frames=(
        "誰も{0}を忘れない。",
        "{0}についての歌がある。",
        "{0}は遠くまで知られている。",
        "みな{0}の話をする。",
        "そこに{0}が見えた。",
        "人々は{0}を思い出した。",
        "{0}も、{1}も同じである。",
        "{0}を好む人も、{1}を好む人もいる。",
    ),
    plain=(
        "初期の歴史はわずかな資料からしか分からない。",
        "記録の大半は{year}年ごろに{region}の学者が集めた。",
        "名前は{region}のどの文書よりも古い。",
        "信じられていることの多くは証明できない。",
        "{year}年の別の報告とは細部が異なる。",
        "{region}では出来事が別の順に語られる。",
        "{year}年に道が良くなると、再び関心が高まった。",
    ),
    headings=(
        "歴史",
        "近隣",
        "歌と伝説",
        "その後",
        "取引",
        "争い",
        "遺産",
        "訪問者",
    ),
    regions=(
        "北谷",
        "鐘島",
        "上景",
        "塩沼",
        "風原",
        "九嶺",
        "下琥",
        "灰浜",
    ),
    aliases=(
        "古{}",
        "大{}",
        "老{}",
        "聖{}",
        "山の{}",
        "新{}",
    ),
    questions=(
        "{0}と{1}に関係のある{name}はどれですか。",
        "{0}や{1}なら、どの{name}ですか。",
        "{0}か{1}についての{name}を探しています。",
        "{0}と{1}で有名な{name}を教えてください。",
    ),
    namespaces={"ノート": 1, "ファイル": 6, "Template": 10, "Category": 14},
    redirect="転送",
    see="関連項目",
    means="は次のいずれかを指す",
    talk="これは",
)

LANGUAGES = {"en": ENGLISH, "de": GERMAN, "ja": JAPANESE}
