"""The contract's test vectors and its prompt written out a second time."""

from systone.protocol.types import Choice, Noul, Request, Score

VECTOR_A = Request(
    state="A customer says: I was charged twice for one order. The service is working normally. "
    "There is no sign of unauthorized access.",
    questions={
        "route": Choice(
            "Which team should handle this issue?",
            {
                "billing": "Problems with charges, invoices, refunds or payments.",
                "security": "Unauthorized access or account compromise.",
                "technical": "Service unavailable or a software malfunction.",
            },
        ),
        "refund_review": Noul("Does this message describe a duplicate charge?"),
        "urgency": Score(
            "Assess the urgency using only the given evidence.",
            (
                "Routine: no service disruption or active security compromise is reported.",
                "Urgent: an ongoing service disruption is reported.",
                "Critical: active unauthorized access is reported.",
            ),
        ),
    },
)
VECTOR_A_LENGTHS = [80, 76, 77, 66, 82, 80, 78]
VECTOR_A_USAGE = 539

VECTOR_B = Request(state="Anything", questions={"q": Choice("Pick", {"only": None})})
VECTOR_B_IDS = [
    *(248045, 846, 198, 1905, 25, 198, 74660, 271, 14162, 25, 19123, 198, 1941, 18988, 4087, 25),
    *(1132, 198, 3742, 411, 10660, 4087, 4252, 30, 21134, 7179, 466, 2233, 13),
    *(248046, 198, 248045, 74455, 198, 248068, 271, 248069, 271),
]

TEMPLATE = (
    "<|im_start|>user\nContext:\n{state}\n\nQuestion: {asked}{rest} Answer Yes or No.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
OPTION = "\nProposed answer: {option}\nIs this proposed answer correct?"
NOUL = "\nIs the answer to this question yes?"


def option_prompt(state: str, asked: str, option: str) -> str:
    rest = OPTION.replace("{option}", option)
    return TEMPLATE.replace("{rest}", rest).replace("{asked}", asked).replace("{state}", state)


def noul_prompt(state: str, asked: str) -> str:
    return TEMPLATE.replace("{rest}", NOUL).replace("{asked}", asked).replace("{state}", state)


def row_ids(trie, row: int) -> list[int]:
    """The ids of one row of a trie, by its parent pointers."""
    start = [0, *trie.node_len.cumsum().tolist()]
    node, parts = int(trie.row_node[row]), []
    while node >= 0:
        parts.append(trie.token_ids[start[node] : start[node + 1]].tolist())
        node = int(trie.node_parent[node])
    return [token for part in reversed(parts) for token in part]


def row_cuts(trie, row: int) -> list[int]:
    """Lengths of the segments of a row's path, root first."""
    node, lengths = int(trie.row_node[row]), []
    while node >= 0:
        lengths.append(int(trie.node_len[node]))
        node = int(trie.node_parent[node])
    return lengths[::-1]
