"""Lab 01: static batching."""

from lablib.course.lab01.padding import PAD_BATCH
from lablib.course.lab01.questions import QUIZ, WATCH
from lablib.course.lab01.schedule import SCHEDULE
from lablib.course.lab01.waste import WASTE
from lablib.course.spec import Lab

LAB = Lab(number=1, title="Static batching", exercises=(PAD_BATCH, SCHEDULE, WASTE), watch=WATCH, quiz=QUIZ)
