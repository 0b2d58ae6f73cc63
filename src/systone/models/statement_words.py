"""English word lists for turning a yes/no question into a statement, and verb inflection.

Owns closed word classes and the open-class words that decision questions use often; knows nothing
of sentences. Every word is lower case and bare of punctuation.
"""

from __future__ import annotations

__all__ = [
    "DEMONSTRATIVES",
    "DETERMINERS",
    "NOUN_VERBS",
    "PREPOSITIONS",
    "PRONOUNS",
    "VERBS",
    "is_adjective",
    "is_adverb",
    "is_function_word",
    "is_number",
    "is_participle",
    "third_person",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DEMONSTRATIVES = _words("""
    this that these those
""")
DETERMINERS = DEMONSTRATIVES | _words("""
    the a an my your his her its our their some any each every all both either neither no most
    many much several another enough more less fewer one two three four five six seven eight
    nine ten
""")
PRONOUNS = _words("""
    it they he she we you i there someone anyone everyone somebody anybody everybody nobody
    something anything everything nothing none
""")
PREPOSITIONS = _words("""
    about above across after against along among around as at before behind below beneath beside
    between beyond by despite down during except for from in inside into like near off on onto
    out outside over past per regarding since than through throughout to toward towards under
    unless until unlike up upon via with within without because if when where while whether
    based
""")
_ADVERBS = _words("""
    not never ever also already still just even only now then here yet often always sometimes
    likely probably perhaps soon very too so quite rather currently actively being almost again
    mainly mostly overdue
""")
_NOT_ADVERBS = _words("""
    reply supply apply family company assembly early daily monthly
""")
_ADJECTIVES = _words("""
    able abusive accessible accurate active adequate afraid aggressive alive alone ambiguous
    angry anonymous anxious appropriate available aware bad bankrupt big biased blank blue
    broken calm certain cheap clean clear close closed cold common complete compliant concerned
    confident confidential confused consistent correct corrupt credible critical cruel current
    damaged dangerous dead deceptive defective deliberate desperate different difficult dirty
    disabled dishonest dissatisfied due duplicate early easy eligible empty enough equal
    essential evasive excessive expensive explicit external extra fair fake false familiar fast
    faulty favorable favourable final fine firm fit formal fragile fraudulent free frequent
    fresh frustrated full fully genuine good grateful great green guilty happy hard harmful
    hateful healthy heavy helpful high honest hostile hot human hungry identical ill illegal
    immediate imminent impatient important impossible inaccurate inactive inappropriate
    incomplete inconsistent incorrect independent indirect informal innocent insecure intact
    intentional interested internal international invalid irrelevant irritated joint junior key
    large last late lawful legal legitimate liable light local long loud low loyal mad main
    malicious manual medical minor misleading missing mutual national natural necessary negative
    neutral new next nice normal novel obvious odd offensive official old online open optional
    ordinary original other outdated overdue own painful partial patient pending perfect
    permanent personal pleased polite poor positive possible present private productive
    professional profitable proper public punctual quick quiet racist ready real reasonable
    recent recoverable red redundant refundable relevant reliable reluctant resistant respectful
    responsible retroactive reversible rich right risky rough rude sad safe same sarcastic
    satisfied secret secure senior sensitive serious severe sexual sexist sharp short sick
    significant similar simple sincere single slow small smart solvent sorry special specific
    stable stale standard strange strict strong stuck sudden sufficient suitable sure suspicious
    technical temporary tense thankful thick thin threatening tight tired toxic traceable true
    truthful typical ugly unable unauthorised unauthorized unavailable unaware unclear underage
    unfair unhappy unhelpful unique unknown unlawful unlikely unnecessary unpaid unreasonable
    unsafe unsatisfied unsolicited unsure untrue unusual unwanted upset urgent useful usual
    vacant vague valid valuable violent visible vulnerable warm weak well wet white whole
    willing worse worth worthwhile wrong young
""")
_ADJECTIVE_ENDINGS = ("ful", "less", "able", "ible", "ous", "ish")
_NOT_ADJECTIVES = _words("""
    vegetable table cable variable deliverable receivable bus
""")

# Words that are seldom nouns: one right after a subject's noun starts the predicate.
VERBS = _words("""
    abandon accept accuse achieve acknowledge act add address admit advise affect agree allege
    allocate allow announce apologise apologize appear apply appreciate approve argue arrive ask
    assert assign assume attach attempt authorise authorize avoid be become beg begin behave
    believe belong blame block book breach break bring build buy calculate cancel carry cause
    cease challenge check choose cite clarify collect come commit communicate compare complain
    complete comply concern conclude confess confirm confuse connect consent consider consist
    constitute consume contain continue contradict convey cooperate correct count cover create
    criticise criticize decide declare decline delete deliver demand demonstrate deny depend
    describe deserve despair detail detect develop differ direct disagree disclose discuss
    dismiss disparage display dispute disturb do doubt drop earn eat emphasise emphasize enable
    encourage end endorse engage enjoy ensure enter escalate exceed exclude exist expect explain
    expose express fail fall fear feel fit fix flag follow forbid force fulfil fulfill gain get
    give go grant greet grow guarantee handle happen harass have hear hesitate hide hint
    identify ignore illustrate imply impose include incite indicate infer inform infringe
    initiate inquire insist insult intend involve keep know lack lead learn leave let lie like
    list live lock look lose maintain make manipulate match mean meet mention misrepresent miss
    mock need negotiate notify obey obtain occur omit oppose originate outline overlap own owe
    paint pass pay perform permit persuade pertain point portray pose possess praise predict
    prefer prepare present preserve pressure prevent proceed produce prohibit promise promote
    propose protect prove provide push quote raise reach react read realise realize receive
    recommend reference refer refuse regret reject relate rely remain remember remove rename
    renew repeat replace reply represent require resemble resolve respond restrict retry return
    reveal run satisfy save say see seek seem sell send serve share show sign solicit solve
    sound speak specify stand start state stay steal stop submit suffer suggest suit support
    suppose tag take talk target tell tend terminate thank threaten touch transfer treat trigger
    try understand undermine update upgrade urge use utilise utilize verify violate wait want
    warrant welcome win wish withdraw work worry write
""")
# Words that are nouns as often as verbs: they start a predicate unless another verb follows.
NOUN_VERBS = _words("""
    access account advance aim alert amount answer appeal assault attack award benefit bill book
    block cause challenge change charge check claim comment comply concern contact contract cost
    cover credit damage deal debate delay demand design detail discount display dispute document
    doubt drop end estimate exchange exit experience export fear feature file fit flag force
    grant harm help hint hire hope import increase influence insult interest issue jeopardise
    label lack lie limit link list load lock look match mention name need note object offer
    order outline pay pitch place plan point post praise present press pressure process profile
    profit project promise promote purchase push question quote raise rate reach record
    reference refund register regret reply report request respect rest result return review
    reward risk run sale schedule score seal search share ship show sign signal sound sponsor
    stand start state stay stop store stress study supply support surface suspect switch target
    test thank threat ticket touch trade transfer travel treat trigger trust turn update upgrade
    use value view visit vote wait warrant wish witness work worry yield
""")
_PARTICIPLES = _words("""
    been begun bent bought broken brought built burnt caught chosen come cut dealt done drawn
    driven eaten fallen felt fought found forbidden forgotten frozen given gone got gotten grown
    had heard held hidden hit hurt kept known laid led left lent lost made meant met paid put
    read run said seen sent set shown shut sold spent split spoken spread stolen stood struck
    stuck sued sworn taken taught thought thrown told torn understood undone upheld withdrawn
    withheld won worn written
""")
_NOT_PARTICIPLES = _words("""
    need feed seed speed bed red shed hundred embed exceed proceed succeed breed indeed
""")
_ING_NOUNS = _words("""
    billing booking branding building ceiling clothing coding dating earning feeling filing
    finding formatting funding handwriting hearing heading hosting housing king landing lighting
    listing marketing meaning meeting morning evening nothing packaging parking phishing pricing
    rating reading ring roaming screening setting shipping something spelling spring string
    thing thinking ticketing timing training warning wedding wording writing
""")
_IRREGULAR_THIRD = {"be": "is", "have": "has", "do": "does", "go": "goes"}


def is_number(word: str) -> bool:
    """Whether a word is a figure: "3", "$10,000", "24-hour"."""
    return any(c.isdigit() for c in word)


def is_adverb(word: str) -> bool:
    """Whether a word modifies a verb or adjective by its list or its ending."""
    if word in _ADVERBS:
        return True
    return word.endswith("ly") and len(word) > 4 and word not in _NOT_ADVERBS


def is_adjective(word: str) -> bool:
    """Whether a word can be a predicate adjective, by its list or its ending."""
    if word in _ADJECTIVES:
        return True
    return len(word) > 5 and word.endswith(_ADJECTIVE_ENDINGS) and word not in _NOT_ADJECTIVES


def is_participle(word: str, *, present: bool = True) -> bool:
    """Whether a word is a past participle, or (`present`) one in -ing that is no common noun."""
    if word in _PARTICIPLES:
        return True
    if word.endswith("ed") and len(word) > 3 and word not in _NOT_PARTICIPLES:
        return True
    return present and word.endswith("ing") and len(word) > 4 and word not in _ING_NOUNS


def is_function_word(word: str) -> bool:
    """Whether a word begins an object or a phrase, so that what stands before it may be a verb."""
    return (
        word in DETERMINERS
        or word in PREPOSITIONS
        or word in PRONOUNS
        or word in ("him", "them", "us", "me")
        or is_number(word)
    )


def third_person(verb: str) -> str:
    """The form of a base verb after "he": "ask" -> "asks", "verify" -> "verifies"."""
    lower = verb.lower()
    if lower in _IRREGULAR_THIRD:
        return _IRREGULAR_THIRD[lower]
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    if lower.endswith("y") and lower[-2:-1] not in ("a", "e", "i", "o", "u"):
        return verb[:-1] + "ies"
    return verb + "s"
