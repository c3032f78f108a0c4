"""Lab 00: one token at a time."""

from lablib.course.lab00.greedy import GREEDY
from lablib.course.lab00.questions import QUIZ, WATCH
from lablib.course.lab00.roofline import INTENSITY, KV_BYTES
from lablib.course.spec import Lab

LAB = Lab(number=0, title="One token at a time", exercises=(GREEDY, KV_BYTES, INTENSITY), watch=WATCH, quiz=QUIZ)
