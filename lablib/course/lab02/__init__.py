"""Lab 02: dynamic batching."""

from lablib.course.lab02.clock import CLOCK
from lablib.course.lab02.latency import LATENCY
from lablib.course.lab02.launch import LAUNCH
from lablib.course.lab02.questions import QUIZ, WATCH
from lablib.course.spec import Lab

LAB = Lab(number=2, title="Dynamic batching", exercises=(LAUNCH, LATENCY, CLOCK), watch=WATCH, quiz=QUIZ)
