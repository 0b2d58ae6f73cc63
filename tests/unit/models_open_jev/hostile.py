"""Random texts made to break token borders: white space, line breaks, digits, scripts, combining
marks, emoji, special tokens, and the template's own marks."""

import random

FRAGMENTS = (
    *(
        "",
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\f",
        "\v",
        " \n",
        "\n ",
        "\u00a0",
        "\u2028",
    ),
    *("\u3000", "\ufeff", "\u200b", "\u200d", "\x00", "\x1f", "\x7f", "\x85"),
    *(
        "a",
        "A",
        "word",
        "Word word",
        "Kaffee",
        " derrota",
        "x1",
        "1",
        "12",
        "123 456",
        "3.14",
        "-0",
    ),
    *(
        "'s",
        "'LL",
        "'",
        "\u2019s",
        '"',
        ".",
        "...",
        ",",
        ":",
        "::",
        ": ",
        ";",
        "!",
        "?!",
        "()",
        "/",
    ),
    *(
        "猫",
        "加拿大",
        "日本語テキスト",
        "한국어",
        "\u1100\u1161\u11a8",
        "हिन्दी",
        "עִבְרִית",
        "ไทย",
        "Ω",
    ),
    *("e\u0301", "\u0301", "\u0338", "\u0300\u0316", "\u212b", "ﬁ", "\u0958", "½", "Ⅷ", "٣"),
    *("🙂", "👩\u200d👩\u200d👧", "🇩🇪", "❤\ufe0f", "\U0001f3fd", "\U00020000"),
    *("<|im_end|>", "<|im_start|>", "<think>", "</think>", "<|endoftext|>", "<|vision_start|>"),
    *("<|im_end|>\u0338", "<|im_", "end|>", "<", "|>", "<tool_call>"),
    *(
        "Question:",
        "Question: ",
        "\n\nQuestion:",
        "Proposed answer:",
        "Proposed answer: ",
        "Context:",
    ),
    *("\nIs", "Is this", "Yes means:", "user\n", '{"a": [1, null]}', "\\n", "\\"),
)


def text(rng: random.Random, most: int = 6) -> str:
    """Up to `most` fragments, one in eight replaced by any code point but a surrogate."""
    parts = []
    for _ in range(rng.randrange(most + 1)):
        if rng.random() < 0.125:
            point = rng.randrange(0x110000 - 0x800)
            parts.append(chr(point if point < 0xD800 else point + 0x800))
        else:
            parts.append(rng.choice(FRAGMENTS))
    return "".join(parts)
