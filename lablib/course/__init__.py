"""What a learner calls in a notebook: exercises with checks and hints, predictions, Watch questions, quizzes.

Importing this is cheap: neither torch nor a widget library is loaded before something needs it.
"""

from lablib.course.checking import CheckFailed, check, hint, solution
from lablib.course.pieces import NotFinished, exercise, piece, provenance, todo
from lablib.course.predictions import guess, predict, reveal, skip
from lablib.course.progress import progress
from lablib.course.quizzes import quiz
from lablib.course.watching import answer

__all__ = [
    "CheckFailed",
    "NotFinished",
    "answer",
    "check",
    "exercise",
    "guess",
    "hint",
    "piece",
    "predict",
    "progress",
    "provenance",
    "quiz",
    "reveal",
    "skip",
    "solution",
    "todo",
]
