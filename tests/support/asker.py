"""A client of a test that asks all the time, for the checks in Python."""

import itertools
import threading

from server_process import PATIENCE


class Asker(threading.Thread):
    """Asks the same things in turn, from number `first` on, and keeps answers that are not the expected ones. `ask` takes a prompt."""

    def __init__(self, ask, prompts, expected, first=0):
        super().__init__(daemon=True)
        self.ask, self.questions = ask, itertools.islice(itertools.cycle(zip(prompts, expected)), first, None)
        self.count, self.wrong, self.stopping = 0, [], threading.Event()

    def run(self):
        for prompt, expected in self.questions:
            if self.stopping.is_set():
                return
            try:
                answer = self.ask(prompt)
            except Exception as error:  # whatever goes wrong is a wrong answer
                answer = repr(error)
            if answer != expected:
                self.wrong.append(answer)
            self.count += 1

    def finish(self):
        """Stops asking. How many answers there were."""
        self.stopping.set()
        self.join(PATIENCE)
        assert not self.is_alive(), f"no answer within {PATIENCE} s"
        assert not self.wrong, f"of {self.count} answers {len(self.wrong)} were others than before: {self.wrong[:3]}"
        return self.count
