"""Lab 03: continuous batching."""

from lablib.course.lab03.packing import PACK
from lablib.course.lab03.questions import QUIZ, WATCH
from lablib.course.lab03.schedule import SCHEDULE
from lablib.course.lab03.update import UPDATE
from lablib.course.spec import Lab

LAB = Lab(number=3, title="Continuous batching", exercises=(SCHEDULE, UPDATE, PACK), watch=WATCH, quiz=QUIZ)
