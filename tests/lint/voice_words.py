"""Words that make a sentence hard to read for somebody whose first language is another.

Each one points at a person or a thing without naming it ("whoever", "one that", "what it is told"), or turns the sentence
around ("of which", "since when", "but for"). Say the name, put the subject first, or write two sentences. The words are counted
in documents (repository_checks.check_docs_voice).
"""

import re

RIDDLING_WORDS = (
    # A person or a thing without a name.
    r"whoever", r"whomever", r"whom", r"whose",
    r"whatever", r"whichever", r"wherever",
    r"nobody", r"somebody", r"everybody",
    r"(?:the )?ones? that", r"those (?:that|who|which)", r"that which", r"he who",
    r"the one (?:before|after|behind|that)", r"none of (?:them|it|these)",
    r"what (?:they|he|comes|came|goes|went|stands|stood|waits|waited|follows)", r"what it(?! (?:does|means|shows)\b)",
    r"(?:is|are|was|were|be) told(?! to)", r"tells? of", r"learns? of",
    # The sentence turned around.
    r"(?:about|after|at|before|behind|beside|by|for|from|in|of|on|than|to|under|with) which",
    r"since when", r"until when", r"or not(?=[,;.])", r"but for", r"for want of", r"save for", r"lest",
    r"not until then",
)

# A pair of words may be wrapped.
RIDDLE = re.compile(r"\b(?:" + "|".join(RIDDLING_WORDS).replace(" ", r"\s+") + r")(?!\w)", re.IGNORECASE)
