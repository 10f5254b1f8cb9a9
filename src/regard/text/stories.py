"""Short stories with a question: read from bAbI files, or told by a small world of people, places and things.

A bAbI file (Weston et al. 2015, arXiv:1502.05698) numbers its lines; a number 1 begins a new story, and a question stands
between the sentences with its answer and the numbers of the sentences that support it:

    1 Mary got the football.
    2 Mary went to the garden.
    3 Where is the football? 	garden	1 2
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .pairs import read_lines

PEOPLE = ("Mary", "John", "Sandra", "Daniel")
PLACES = ("kitchen", "garden", "office", "bedroom", "hallway", "bathroom")
THINGS = ("football", "milk", "apple")
MOVES = ("went to", "moved to", "journeyed to", "travelled to", "went back to")
TAKES = ("took", "got", "grabbed", "picked up")
DROPS = ("dropped", "put down", "left", "discarded")


@dataclass(frozen=True)
class Story:
    """Sentences, a question about them, its answer, and which sentences (from 0) support it, as far as that is known."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    supports: tuple[int, ...] = ()


def read_stories(path: str | Path) -> list[Story]:
    """Every question of a bAbI file with the sentences told before it; an error names the file and line."""
    stories: list[Story] = []
    sentences: list[str] = []
    places: dict[int, int] = {}  # a line's number in its story → which sentence it is
    last = 0
    for line_number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{line_number}"
        head, _, text = line.strip().partition(" ")
        if not head.isdigit() or not text.strip():
            raise ValueError(f"{where}: {line.strip()[:40]!r}; expected a number, a space and a sentence")
        number = int(head)
        if number == 1:
            sentences, places, last = [], {}, 0
        if number != last + 1:
            raise ValueError(f"{where}: line {number} of a story follows line {last}; expected {last + 1}, or 1 for a new story")
        last = number
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) == 1:
            places[number] = len(sentences)
            sentences.append(cells[0])
            continue
        if not sentences:
            raise ValueError(f"{where}: a question before any sentence; there is nothing to answer it from")
        if len(cells) > 3 or not cells[0] or not cells[1]:
            raise ValueError(f"{where}: expected question, answer and supporting lines between tabs, got {len(cells)} cells: {cells}")
        stories.append(Story(tuple(sentences), cells[0], cells[1], _supports(cells[2:], places, where)))
    if not stories:
        raise ValueError(f"{path}: no question in it; expected bAbI lines such as '3 Where is Mary? <tab>garden<tab>2'")
    return stories


def _supports(cells: Sequence[str], places: dict[int, int], where: str) -> tuple[int, ...]:
    found = []
    for item in cells[0].split() if cells else ():
        if not item.isdigit() or int(item) not in places:
            raise ValueError(f"{where}: supporting line {item!r} is not an earlier sentence of this story ({', '.join(map(str, places))})")
        found.append(places[int(item)])
    return tuple(found)


def tell_stories(count: int, *, facts: Literal[1, 2] = 1, sentences: tuple[int, int] = (4, 10), seed: int = 0) -> list[Story]:
    """`count` stories of `sentences` (fewest, most) sentences that need one or two facts to answer.

    facts=1  "Where is Mary?": her last move
    facts=2  "Where is the milk?": who had it last, and that person's last move (before it was dropped, if it was)

    >>> story = tell_stories(1, facts=1, sentences=(3, 3))[0]
    >>> len(story.sentences), [story.answer in story.sentences[n] for n in story.supports]
    (3, [True])
    """
    if facts not in (1, 2):
        raise ValueError(f"facts is {facts}; stories can be told for 1 or 2")
    if not facts <= sentences[0] <= sentences[1]:
        raise ValueError(f"sentences is {sentences}; expected (fewest, most) with {facts} ≤ fewest ≤ most")
    chance = random.Random(seed)
    stories: list[Story] = []
    while len(stories) < count:
        story = _World(chance).tell(chance.randint(*sentences), facts)
        if story is not None:
            stories.append(story)
    return stories


class _World:
    """Who is where and who has what, with the sentence that told it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.moves: dict[str, tuple[int, str]] = {}  # person → sentence and place of the last move
        self.things: dict[str, tuple[int, int, str]] = {}  # thing → sentence that took or dropped it, sentence and place of where it is
        self.holders: dict[str, str] = {}
        self.leaving: str | None = None  # who has just dropped something, and will likely walk away from it

    def tell(self, length: int, facts: int) -> Story | None:
        sentences = [self.happen(n, facts) for n in range(length)]
        if facts == 1:
            person = self.chance.choice(sorted(self.moves))
            n, place = self.moves[person]
            return Story(tuple(sentences), f"Where is {person}?", place, (n,))
        if not self.things:
            return None
        thing = self.chance.choice(sorted(self.things))
        n, m, place = self.things[thing]
        if thing in self.holders:
            m, place = self.moves[self.holders[thing]]
        return Story(tuple(sentences), f"Where is the {thing}?", place, (n, m))

    def happen(self, n: int, facts: int) -> str:
        leaving, self.leaving = self.leaving, None
        if leaving is not None and self.chance.random() < 0.7:
            return self.move(n, leaving)
        person = self.chance.choice([*PEOPLE, *self.holders.values()])  # who holds something is in the story more often
        if facts == 2 and person in self.moves and self.chance.random() < 0.5:
            m, place = self.moves[person]
            held = [thing for thing, holder in self.holders.items() if holder == person]
            # What lies elsewhere, or was never seen, cannot be taken; a thing never mentioned may lie anywhere.
            near = [t for t in THINGS if t not in self.holders and (t not in self.things or self.things[t][2] == place)]
            if held and (not near or self.chance.random() < 0.6):
                thing = self.chance.choice(sorted(held))
                del self.holders[thing]
                self.things[thing] = n, m, place
                self.leaving = person
                return f"{person} {self.chance.choice(DROPS)} the {thing}."
            if near:
                thing = self.chance.choice(near)
                self.holders[thing] = person
                self.things[thing] = n, m, place
                return f"{person} {self.chance.choice(TAKES)} the {thing}."
        return self.move(n, person)

    def move(self, n: int, person: str) -> str:
        place = self.chance.choice([p for p in PLACES if person not in self.moves or p != self.moves[person][1]])
        self.moves[person] = n, place
        return f"{person} {self.chance.choice(MOVES)} the {place}."
