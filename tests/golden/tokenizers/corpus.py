"""The strings of the tokenizer tests: many scripts, symbols, code, white space, special tokens."""
import unicodedata

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "What is the capital of France? It's Paris, and we'll visit it in 2025.",
    "I'd say they've gone; you're late, I'm not, and he'd rather wait.",
    "A request has a prompt, a budget of tokens and a deadline of 30 seconds.",
    "Blocks return to the pool when no step that mentions them is in flight.",
    "Der Zug fährt um 7 Uhr 45 über München nach Österreich; das ist schön groß.",
    "L'été dernier, nous avons mangé des crêpes à la crème brûlée.",
    "El niño corrió rápido. ¿Qué pasó después? ¡Nadie lo sabe!",
    "O coração não têm razões; a avó diz que sim.",
    "Zażółć gęślą jaźń, proszę pana.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "İstanbul'da yağmur yağıyor, şemsiyeni unutma.",
    "Việt Nam có nhiều món ăn ngon, phở là một trong số đó.",
    "Все счастливые семьи похожи, сказал он в 1877 году.",
    "Η θάλασσα είναι ήρεμη σήμερα το πρωί.",
    "مرحبا بالعالم، كيف حالك اليوم؟ ١٢٣",
    "שלום עולם, מה שלומך היום?",
    "नमस्ते दुनिया, आप कैसे हैं? १२३",
    "সবাইকে শুভেচ্ছা জানাই।",
    "வணக்கம் உலகம்",
    "สวัสดีชาวโลก วันนี้อากาศดี",
    "გამარჯობა მსოფლიო",
    "Բարեւ աշխարհ",
    "안녕하세요 세계, 오늘 날씨가 좋네요.",
    "你好，世界！今天天气很好，我们去公园吧。价格是123.45元。",
    "こんにちは世界。今日は良い天気ですね、コーヒーを飲みましょう。",
]

CODE = [
    "for (int i = 0; i < n; ++i) {", "    return x->y[i] != nullptr;", "}\n\n",
    "def f(self, *args):\n\t", "if (a && b || !c) {\n", "#include <vector>\n",
    "std::vector<int> v{1, 2, 3};", "x = x*2 + 3.14e-10", "0xDEADBEEF",
    "SELECT * FROM t WHERE id >= 1000000;", "$(document).ready(() => {});", "a[b[c]](d){}",
    "// comment -- with ~ odd ^ signs", "<div class=\"x\">&nbsp;</div>",
    "{\"key\": [null, true, -1.5]}", "\\frac{1}{2}", "http://example.org/a?b=c&d=%20#e",
    "user@host:~$ ls -la | grep '^d'", "\t\t\tpass\n", "\r\n\r\n", "@@ -1,3 +1,4 @@",
    "=> ->  <-  <= >= == === != !==", "_underscore__dunder__", "camelCaseName",
    "SCREAMING_SNAKE_CASE", "kConstant", "''' '' ' \" \"\" \"\"\"", "don't'll've're's't'm'd",
]

EMOJI = [
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f44d\U0001f3fd", "\U0001f1eb\U0001f1f7",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "1\ufe0f\u20e3",
    "\u2764\ufe0f\u200d\U0001f525", "\u2603\ufe0f", "\U0001f9d1\U0001f3ff\u200d\U0001f680",
    "\U0001f441\ufe0f\u200d\U0001f5e8\ufe0f", "\u00a9\ufe0f", "\U0001faf6\U0001f3fb",
]

SPACES = [
    " ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u00a0", "\u0085", "\u1680", "\u2003",
    "\u2009", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "\u180e",
    "\u2060",
]

CONTRACTIONS = [
    "'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL",
    "'lL", "'d", "'D", "'\u017f", "'l", "'r", "'v", "'", "\u2019s", "''s", "'sx", "'llama",
]

SPECIALS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>",
    "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<tool_call>", "</tool_call>",
    "<think>", "</think>", "<repo_name>", "[MASK]", "[TAIL]", "<|im_start", "|im_end|>", "<|", "|>",
    "<<|im_end|>>", "<|endoftext|", "solo", "solos", "resolo", "caf\u00e9", "cafe\u0301", "cafe",
    "\u00e9t\u00e9", "e\u0301te\u0301", "\u00e9t\u00e9s", "[MASK", "<THINK>",
]

DIGITS = [
    "0", "7", "42", "123", "1234", "12345678", "3.14159", "1,000,000", "1e10", "\u0663\u0664",
    "\uff11\uff12", "\u00b2", "\u00bd", "\u2167", "\u3007", "\u4e00\u4e8c", "\u0967\u0968",
    "\u2460", "\U0001d7d8", "\u0bf0", "0x1F", "2024-06-11T12:34:56Z", "-5", "+5", "#1", "1st",
    "x2y3",
]

BLOCKS = [
    (0x00A1, 0x024F), (0x0250, 0x02AF), (0x0370, 0x03FF), (0x0400, 0x052F), (0x0531, 0x058A),
    (0x0590, 0x05F4), (0x0600, 0x06FF), (0x0700, 0x074F), (0x0780, 0x07B1), (0x07C0, 0x07FA),
    (0x0900, 0x097F), (0x0980, 0x09FB), (0x0A01, 0x0A75), (0x0A81, 0x0AF1), (0x0B01, 0x0B77),
    (0x0B82, 0x0BFA), (0x0C00, 0x0C7F), (0x0C80, 0x0CF2), (0x0D00, 0x0D7F), (0x0D82, 0x0DF4),
    (0x0E01, 0x0E5B), (0x0E81, 0x0EDF), (0x0F00, 0x0FD4), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13F4), (0x1400, 0x14FF), (0x1680, 0x169C),
    (0x16A0, 0x16F0), (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1E00, 0x1FFE), (0x2000, 0x206F),
    (0x2070, 0x209C), (0x20A0, 0x20BF), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x25FF),
    (0x2600, 0x27BF), (0x2800, 0x28FF), (0x2C00, 0x2DFF), (0x3001, 0x30FF), (0x3105, 0x318E),
    (0x3200, 0x33FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xA4C6), (0xA500, 0xA62B),
    (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAD9), (0xFB00, 0xFDFF), (0xFE20, 0xFE6B),
    (0xFF01, 0xFFEE), (0x10000, 0x100FA), (0x10330, 0x1034A), (0x10400, 0x1049D),
    (0x12000, 0x12399), (0x13000, 0x1342E), (0x1D100, 0x1D1E8), (0x1D400, 0x1D7FF),
    (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0100, 0xE01EF), (0xF0000, 0xF00FF),
]

MARKS = [
    0x0300, 0x0301, 0x0302, 0x0303, 0x0308, 0x0323, 0x0327, 0x0331, 0x0345, 0x034F, 0x05B0, 0x05BC,
    0x064B, 0x0651, 0x093C, 0x094D, 0x0E38, 0x0F71, 0x1DC0, 0x20D0, 0x302A, 0x3099, 0xFE20,
]


def assigned(code_point):
    return unicodedata.category(chr(code_point)) not in ("Cn", "Cs")


def from_block(rng, block, length):
    letters = []
    while len(letters) < length:
        code_point = rng.randint(*block)
        letters.append(chr(code_point) if assigned(code_point) else " ")
    return "".join(letters)


def words(rng):
    text = rng.choice(SENTENCES).split(" ")
    begin = rng.randrange(len(text))
    return " ".join(text[begin:begin + rng.randint(1, 6)])


def code(rng):
    return rng.choice(["", "\n", " "]).join(rng.choice(CODE) for _ in range(rng.randint(1, 3)))


def emoji(rng):
    return rng.choice(["", " ", "a", "!"]).join(rng.choice(EMOJI) for _ in range(rng.randint(1, 4)))


def spaces(rng):
    run = "".join(rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 7]) for _ in range(rng.randint(1,
                                                                                              4)))
    return rng.choice(["", "x", "9", "!", "\u4e2d"]) + run + rng.choice(["", "y", "8", "?", "'s",
                                                                         "\u0301"])


def contractions(rng):
    return "".join(rng.choice(["I", "we", "WE", " ", "3", "\u00e9", ""]) + rng.choice(CONTRACTIONS)
                   for _ in range(rng.randint(1, 4)))


def specials(rng):
    return "".join(rng.choice(["", " ", "  ", "\n", "x", words(rng)]) + rng.choice(SPECIALS)
                   for _ in range(rng.randint(1, 4))) + rng.choice(["", " ", " \n", "user\n", "x"])


def digits(rng):
    return rng.choice(["", " ", "   ", "\n",
                       ", "]).join(rng.choice(DIGITS) for _ in range(rng.randint(1, 4)))


def controls(rng):
    pool = [chr(c) for c in range(0x20)] + ["\x7f"] + [chr(c) for c in range(0x80, 0xA0)] + ["a",
                                                                                             " "]
    return "".join(rng.choice(pool) for _ in range(rng.randint(1, 10)))


def marks(rng):
    bases = "aeionucsgAE\u00e9\u00fc\u03b1\u0438\u05d0\u0915\u304b\uac00\u1100\u1161\u11a8 1"

    def marked():
        count = rng.choice([0, 1, 1, 2, 3])
        return rng.choice(bases) + "".join(chr(rng.choice(MARKS)) for _ in range(count))

    return "".join(marked() for _ in range(rng.randint(1, 8)))


def script(rng):
    return " ".join(from_block(rng, rng.choice(BLOCKS),
                               rng.randint(1, 8)) for _ in range(rng.randint(1, 3)))


def anything(rng):
    letters = []
    for _ in range(rng.randint(1, 12)):
        code_point = rng.choice([rng.randint(0, 0x7F), rng.randint(0, 0x7FF),
                                 rng.randint(0, 0xFFFF),
                                 rng.randint(0, 0x10FFFF)])
        if not 0xD800 <= code_point < 0xE000:
            letters.append(chr(code_point))
    return "".join(letters)


def mixed(rng):
    return "".join(rng.choice([words, code, emoji, spaces, digits, marks, specials, script])(rng)
                   for _ in range(2))


MAKERS = [
    (words, 1600), (code, 900), (emoji, 500), (spaces, 1600), (contractions, 700), (specials, 1500),
    (digits, 900), (controls, 600), (marks, 900), (script, 1600), (anything, 700), (mixed, 700),
]


def make_corpus(rng):
    fixed = ["", " ", "\n", "a", "'", "   1", "\n0", " " * 200, "\n" * 100, " \n" * 50,
             "\t " * 64 + "x",
             "a" * 500, "ab" * 200, "1" * 100, "!" * 200, "\u4e2d" * 100, "\U0001f600" * 40,
             "'s" * 60,
             "a\u0301" * 50, "\u00a0" * 60 + "x", "<|im_start|>" * 20, "x" * 63, "x" * 64,
             "x" * 65] + SENTENCES + CODE
    strings = dict.fromkeys(fixed)
    for maker, count in MAKERS:
        made = 0
        attempts = 0
        while made < count and attempts < 20 * count:
            attempts += 1
            text = maker(rng)
            if text not in strings:
                strings[text] = None
                made += 1
    return list(strings)
