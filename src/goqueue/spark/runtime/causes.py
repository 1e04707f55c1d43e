"""Why a Spark job failed, in one readable text.

Spark wraps an error in layers: a streaming query, a stage failure, a Python worker's traceback, a
Java trace, a plan.  What a person needs is at the bottom.  What is kept of Spark's own texts is
what names the mistake: the sentence, and where in the SQL it is.
"""

import re
from typing import Any, Final

from goqueue.client.errors import ClientError

CAUSE_CHARACTERS_MAX: Final = 4000
JAVA_CAUSES_MAX: Final = 20  # a chain of causes may be a circle

STREAM_FAILED: Final = re.compile(r"\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL)
STREAM_STATE: Final = re.compile(r"\n=== Streaming Query ===.*", re.DOTALL)
STAGE_FAILED: Final = re.compile(
    r"Job aborted due to stage failure.*?most recent failure: Lost task[^:]*: ", re.DOTALL
)
TRACEBACK: Final = re.compile(r".*Traceback \(most recent call last\):\n", re.DOTALL)
PYTHON_ERROR: Final = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>\w+): ?(?P<text>.*)", re.DOTALL)
JAVA_CLASS: Final = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.){2,}(?:\w+\$)*\w+: ")
JAVA_TRACE: Final = re.compile(r"\n\s+at [\w.$/]+\(.*|\nDriver stacktrace:.*", re.DOTALL)
CONDITION: Final = re.compile(r"^\s*\[[A-Z][A-Z0-9_.]*\] ")
HAS_CONDITION: Final = re.compile(r"\s*(?:[\w.$]+: )?\[[A-Z][A-Z0-9_.]*\] ")
SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")
SAYS_NOTHING: Final = re.compile(
    r"|Exception thrown in awaitResult:|(Writing )?[Jj]ob aborted\.?|Task failed while writing.*"
)
POSITION: Final = re.compile(r"\.?; line (\d+) pos (\d+)")
PLAN: Final = re.compile(r";\n['!+:(A-Z].*", re.DOTALL)
SEARCH_PATH: Final = re.compile(
    r" Verify the spelling and correctness of the schema and catalog\.\nSearch path:.*IF EXISTS\.",
    re.DOTALL,
)

JVM_IS_GONE: Final = (
    "Spark's Java process is gone: it was killed, or ran out of memory"
    " (--set spark.driver.memory=4g gives it more)"
)
ABOUT_THE_JVM: Final = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError"}


class JobFailed(ClientError):
    """A job ended with an error; the text is its cause."""


def errors_of_spark() -> tuple[type[Exception], ...]:
    """What Spark, the bridge to its JVM, and a JVM that is gone raise."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, ConnectionError


def cause_of(error: BaseException) -> str:
    """The text to show for whatever Spark raised."""
    if type(error).__name__ in ABOUT_THE_JVM:
        return JVM_IS_GONE
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    texts = [str(error)] if hasattr(error, "getCondition") or java is None else []
    texts += _java_texts(java)
    telling = [each for each in texts if not SAYS_NOTHING.fullmatch(cause_in(each))]
    if not telling:
        return type(error).__name__
    # What has a condition is written for people; else the innermost says the most.
    return cause_in(next((each for each in telling if HAS_CONDITION.match(each)), telling[-1]))


def _java_texts(java: Any) -> list[str]:
    """Of a Java exception and its causes, the innermost last."""
    texts: list[str] = []
    for _ in range(JAVA_CAUSES_MAX):
        if java is None:
            break
        if java.getMessage():
            texts.append(str(java.toString()))
        java = java.getCause()
    return texts


def cause_in(text: str) -> str:
    """The sentence that matters in an error text of Spark's."""
    text = STREAM_STATE.sub("", STREAM_FAILED.sub("", text))
    text = STAGE_FAILED.sub("", text)
    if TRACEBACK.match(text):
        return _python_cause(TRACEBACK.sub("", text))
    text = JAVA_CLASS.sub("", JAVA_TRACE.sub("", text.strip()))
    text = SEARCH_PATH.sub("", PLAN.sub("", SQLSTATE.sub("", CONDITION.sub("", text))))
    return POSITION.sub(r" (line \1, pos \2)", text.strip())[:CAUSE_CHARACTERS_MAX]


def _python_cause(frames: str) -> str:
    """What was raised: the first line that is not indented, and the lines of its text."""
    lines = SQLSTATE.sub("", JAVA_TRACE.sub("", frames)).split("\n")
    start = next((i for i, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    raised = "\n".join(lines[start:]).strip()
    found = PYTHON_ERROR.match(raised)
    if found is None:
        return raised[:CAUSE_CHARACTERS_MAX]
    ours = found["module"].startswith("goqueue.")  # such a text stands by itself
    return (found["text"] if ours else f"{found['name']}: {found['text']}")[:CAUSE_CHARACTERS_MAX]
