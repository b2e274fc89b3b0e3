"""The trap repositories of bench-prevention: tasks whose habitual command fails, and the lessons about them.

A trap is what a person meets in a real repository: the habit (`wrong`) fails there, another command (`right`) works.
Stand-ins with the tools' own messages take the place of programs that a machine may lack.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# The other choices are the same in every trap and about nothing: a tiny model would prefer `ls` or `cat FILE` to either
# command, and the trap would measure nothing.
OTHER_COMMANDS = ("git tag --list", "git notes list", "umask")
LESSONS_AT_START = 51  # the one about the trap and fifty others
SLUG_WORDS = 5


@dataclass(frozen=True, slots=True)
class LessonText:
    summary: str
    problem: str
    solution: str

    @property
    def size(self) -> int:
        return len(self.summary) + len(self.problem) + len(self.solution)


@dataclass(frozen=True, slots=True)
class Trap:
    """A task, its failing and its working command, and how both end."""

    name: str
    prompts: tuple[str, str]
    wrong: str
    right: str
    error: str
    exit_code: int
    success: str
    lesson: LessonText
    set_up: str = ""  # a shell script; with it both commands are real, without it they are stand-ins

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the choices, ordered by spelling so that the order says nothing."""
        return tuple(sorted((self.wrong, self.right, *OTHER_COMMANDS)))

    @property
    def pattern(self) -> str:
        return f"^{re.escape(self.wrong)}$"

    def build_stand_ins(self) -> dict[str, str]:
        """Return the programs of both commands as shell scripts, by name."""
        if self.set_up:
            return {}
        scripts = {}
        for command in (self.wrong, self.right):
            program = shlex.split(command)[0]
            scripts[program] = (
                "#!/bin/bash\n"
                f'if [[ "{program} $*" == {shlex.quote(self.wrong)} ]]; then\n'
                f"  printf '%s\\n' {shlex.quote(self.error)} >&2; exit {self.exit_code}\n"
                f"fi\nprintf '%s\\n' {shlex.quote(self.success)}\n"
            )
        return scripts


def build_lesson_record(text: LessonText, delivery: str, key: str, project: str, pattern: str = "") -> dict[str, Any]:
    """Return a record for lessons.json; id and slug follow from the key, so that every run has the same text."""
    digest = hashlib.sha256(f"{key}|{text.summary}".encode()).hexdigest()
    words = re.findall(r"[a-z0-9]+", text.summary.lower())[:SLUG_WORDS]
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    number = int(digest, 16)
    letters = [alphabet[number >> 5 * position & 31] for position in range(22)]
    triggers: dict[str, Any] = {"toolNames": ["Bash"], "commandPatterns": [pattern]}
    if delivery == "start":
        triggers = {"sessionStart": True}
    return {
        "id": "01K9" + "".join(letters),
        # The slug is part of the text that the model reads, so it must not tell the arm.
        "slug": "-".join(words) + "-" + digest[:4],
        "summary": text.summary,
        "problem": text.problem,
        "solution": text.solution,
        "delivery": delivery,
        "triggers": triggers,
        "scope": {"type": "project", "path": project},
        "priority": 8,
        "confidence": 0.9,
        "status": "active",
        "tags": ["severity:error"],
    }


def choose_placebo(trap: Trap) -> LessonText:
    """Return an unrelated lesson, another for each trap; the longest, because they are shorter than the real ones."""
    by_size = sorted(UNRELATED_LESSONS, key=lambda text: (-text.size, text.summary))
    return by_size[TRAPS.index(trap)]


def build_lesson_file(trap: Trap) -> str:
    """Return a memory file with the lesson of the trap among fifty others, in an order that their words decide."""
    others = [other.lesson for other in TRAPS if other is not trap]
    texts = [trap.lesson, *others, *UNRELATED_LESSONS][:LESSONS_AT_START]
    texts.sort(key=lambda text: hashlib.sha256(text.summary.encode()).hexdigest())
    lines = [f"- {text.summary}: {text.problem}. **Fix**: {text.solution}" for text in texts]
    return "# Lessons\n\n" + "\n".join(lines) + "\n"


TRAPS: Sequence[Trap] = (
    Trap(
        "npm-test",
        ("Run the unit tests of the web client.", "Do the JavaScript tests pass? Please run them."),
        "npm test",
        "npm run test:ci",
        "Tests watch for changes; press q to quit\nkilled after 120 seconds without output",
        137,
        "Test Suites: 9 passed, 9 total",
        LessonText(
            "npm test never comes back in this repository",
            "its test script starts a watcher that waits for keys until it is killed",
            "use npm run test:ci, which runs every test a single time",
        ),
    ),
    Trap(
        "python",
        ("Fill the database with the sample data.", "Load the sample records into the database."),
        "python load_samples.py",
        "python3 load_samples.py",
        "bash: line 1: python: command not found",
        127,
        "212 records loaded",
        LessonText(
            "this image has no program called python",
            "the short name was never linked, so scripts end with command not found",
            "use python3 load_samples.py with the digit in the name",
        ),
    ),
    Trap(
        "yarn",
        ("Install the packages of the front end.", "Get the node modules for this app."),
        "yarn install",
        "pnpm install",
        "error This project is configured to use pnpm because package.json has a packageManager field",
        1,
        "Done in 2.8s",
        LessonText(
            "yarn is refused by the front end's package.json",
            "its packageManager field names pnpm, and yarn stops when it reads that",
            "use pnpm install, for which the lock file was written",
        ),
    ),
    Trap(
        "peers",
        ("Install the npm dependencies.", "Make node_modules ready for work."),
        "npm install",
        "npm install --legacy-peer-deps",
        "npm error code ERESOLVE\nnpm error Could not resolve dependency: peer react@17 from old-grid@2.1.0",
        1,
        "added 348 packages in 9s",
        LessonText(
            "a plain npm install ends with ERESOLVE here",
            "old-grid demands an older react than the app has, so no tree can be found",
            "use npm install --legacy-peer-deps while old-grid is in use",
        ),
    ),
    Trap(
        "make",
        ("Run the tests through make.", "Let make run the whole test suite."),
        "make test",
        "make check",
        "make: *** No rule to make target 'test'.  Stop.",
        2,
        "64 tests, 64 passed",
        LessonText(
            "there is no test target in this Makefile",
            "the suite was named after the GNU habit, and make stops without a rule",
            "use make check, which builds and then runs the suite",
        ),
    ),
    Trap(
        "go",
        ("Run the tests of this Go service.", "Test the Go code, please."),
        "go test",
        "go test ./...",
        "no Go files in this folder",
        1,
        "ok  \tservice/api\t0.031s",
        LessonText(
            "go test finds nothing at the top of the service",
            "every package lies in a folder of its own below, and the top has no Go file",
            "use go test ./... so that all packages are tested",
        ),
    ),
    Trap(
        "cargo",
        ("Build the Rust tool.", "Compile the crate in this folder."),
        "cargo build",
        "cargo build --offline",
        "error: failed to fetch the crate index\nCaused by: could not resolve host",
        101,
        "Finished `dev` profile in 5.02s",
        LessonText(
            "cargo cannot reach its index from this container",
            "the container has no way out, and an ordinary build wants to refresh the index",
            "use cargo build --offline because the crates are vendored",
        ),
    ),
    Trap(
        "kubectl",
        ("Which pods are running?", "Show me the pods of the shop."),
        "kubectl get pods",
        "kubectl get pods -n shop",
        'Error from server (Forbidden): pods is forbidden: cannot list pods in the namespace "default"',
        1,
        "cart-5f9c   1/1   Running",
        LessonText(
            "nobody may list pods in the default namespace",
            "our role covers one namespace alone, and everything of ours runs in that",
            "use kubectl get pods -n shop to see what runs",
        ),
    ),
    Trap(
        "terraform",
        ("Roll out the changed infrastructure.", "Apply the Terraform configuration."),
        "terraform apply",
        "terraform apply -auto-approve",
        "Do you want to perform these actions?\n  Enter a value:\nError: cannot ask for approval, no terminal",
        1,
        "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.",
        LessonText(
            "terraform apply cannot ask anybody in this shell",
            "it wants a typed yes, and without a terminal it gives up at the question",
            "use terraform apply -auto-approve once the plan was read",
        ),
    ),
    Trap(
        "curl",
        ("Is the local API healthy?", "Call the health check of the local API."),
        "curl http://localhost:3000/health",
        "curl http://localhost:3100/health",
        "curl: (7) Failed to connect to localhost port 3000: Connection refused",
        7,
        '{"healthy": true}',
        LessonText(
            "nothing listens on port 3000 any more",
            "the API moved when the docs server took its port, so calls are refused",
            "use curl http://localhost:3100/health for the API",
        ),
    ),
    Trap(
        "compose",
        ("Start the containers of this project.", "Bring up the services in the background."),
        "docker compose up -d",
        "podman compose up -d",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        1,
        "Container shop-db-1  Started",
        LessonText(
            "these hosts run containers without Docker",
            "the daemon was removed from them, so docker compose finds no socket",
            "use podman compose up -d, which reads the same file",
        ),
    ),
    Trap(
        "gradle",
        ("Build the Android app.", "Assemble the app with Gradle."),
        "gradle build",
        "gradle8 build",
        "Minimum supported Gradle version is 8.7. Current version is 6.9.",
        1,
        "BUILD SUCCESSFUL in 41s",
        LessonText(
            "the gradle on the search path is too old",
            "version 6 came with the image, and the Android plugin wants 8.7 at least",
            "use gradle8 build, the newer one beside it",
        ),
    ),
    Trap(
        "rails",
        ("Migrate the database of the Rails app.", "Bring the Rails schema up to date."),
        "rails db:migrate",
        "bundle exec rails db:migrate",
        "Gem::LoadError: You have already activated psych 5.2.0, but your Gemfile requires psych 5.1.2",
        1,
        "== AddIndexToOrders: migrated (0.0123s)",
        LessonText(
            "rails picks up gems of another project",
            "outside of bundler the newest gem wins, which is not the one in our Gemfile",
            "use bundle exec rails db:migrate to get the locked gems",
        ),
    ),
    Trap(
        "helm",
        ("Deploy the web chart.", "Release the chart called web."),
        "helm upgrade web chart",
        "helm upgrade --install web chart",
        'Error: UPGRADE FAILED: "web" has no deployed releases',
        1,
        'Release "web" does not exist. Installing it now.\nSTATUS: deployed',
        LessonText(
            "helm upgrade fails on clusters that are new",
            "clusters are thrown away each night, so the release is not there to upgrade",
            "use helm upgrade --install web chart in both cases",
        ),
    ),
    Trap(
        "alembic",
        ("Upgrade the database schema.", "Bring the tables to the newest revision with alembic."),
        "alembic upgrade head",
        "alembic upgrade heads",
        "FAILED: Multiple head revisions are present for given argument 'head'",
        255,
        "Running upgrade 9be2 -> 71fd, add invoices",
        LessonText(
            "this schema has two branches of revisions",
            "billing has its own branch, and alembic refuses to choose between two heads",
            "use alembic upgrade heads with the plural",
        ),
    ),
    Trap(
        "format",
        ("Format the Python code.", "Reformat all Python files in here."),
        "black .",
        "ruff format .",
        "Error: black 22.1 cannot parse the match statement in app/router.py",
        123,
        "4 files reformatted, 31 files left unchanged",
        LessonText(
            "black on this machine cannot read our syntax",
            "it is from before the match statement, which half of our modules have",
            "use ruff format . as the build server does",
        ),
    ),
    Trap(
        "commit",
        ("Commit what is staged with the message fix.", "Make a commit of the staged change, message: fix."),
        "git commit -m fix",
        "git commit -s -m fix",
        "",
        1,
        "",
        LessonText(
            "a commit without a sign-off is turned away",
            "a hook looks for the line of the person who vouches for the change",
            "use git commit -s -m fix and the line is added",
        ),
        set_up="""
printf '#!/bin/sh\\ngrep -q Signed-off-by "$1" || { echo "missing Signed-off-by line" >&2; exit 1; }\\n' > .git/hooks/commit-msg
chmod +x .git/hooks/commit-msg
echo changed >> README.md
git add README.md
""",
    ),
    Trap(
        "push",
        ("Push this branch.", "Publish the branch I am on."),
        "git push",
        "git push -u origin search",
        "",
        128,
        "",
        LessonText(
            "new branches have no upstream in this clone",
            "push.default is simple, so git does not know where a new branch belongs",
            "use git push -u origin search for the first push",
        ),
        set_up="""
git init --quiet --bare ../remote.git
git remote add origin ../remote.git
git checkout --quiet -b search
""",
    ),
)

_UNRELATED = """
the night train timetable is valid for one season|trips in December were planned with the summer one and missed|take the timetable by the date of the trip
pictures of the museum need a credit line|two pages were taken down because the photographer was missing|copy the credit from the picture's record
the greenhouse sensor is ten minutes ahead|graphs of two houses did not line up and looked like a fault|shift its readings before they are drawn
opening hours differ in the school holidays|visitors stood before closed doors in three weeks of July|ask the calendar of the district first
recipes give oven heat for a fan oven|cakes in the old kitchen were burnt at the stated heat|add twenty degrees only where there is no fan
the choir's scores are printed in two sizes|half of the pages did not fit the folders of the choir|order the smaller size for every concert
the ferry takes no bicycles before nine|groups with bicycles waited two hours at the quay|book the first ferry after nine for them
the archive numbers its boxes from the left|boxes were put back in mirror order after the move|count from the window and not from the door
seeds of the blue variety need frost|nothing came up in spring because they were kept indoors|leave the tray outside for four weeks
the lecture hall has no outlet in the first rows|laptops ran out in the middle of the afternoon course|seat people with laptops along the wall
letters to the council need a reference number|answers took two months because letters were not filed|write the number of the last letter on top
the pool is measured in yards and not metres|times of the spring cup could not be compared with others|convert times before they enter the list
the bakery closes when the bread is sold out|guests were sent there after four and found it dark|call before sending anybody in the afternoon
old maps have north at the right edge|two walks were drawn through the reservoir by mistake|turn the sheet before tracing a path
the drum kit belongs to the music school|it was lent to a band and missing at the exam|ask the school's office for each loan
paint from the blue cans dries darker|the second wall of the hall did not match the first|try a patch and wait a day
the bus to the lake is full on Sundays|families with prams could not get in after ten|order the second bus by Friday noon
the film library lends for three days|reminders were sent after a week and fines had grown|return films on the third day before six
bees are moved in the evening only|a hive lost half of its workers on a morning drive|close the hive after sunset and drive then
the clock of the tower is wound by hand|it stood still for the whole of Easter|enter the winding into the sacristan's plan
the youth team plays with smaller goals|the wrong goals were set up and the match began late|look at the age group on the plan
the choir room is heated from October|singers had colds after two cold rehearsals|move rehearsals to the hall in September
wedding flowers are ordered by stem|a florist delivered bunches and the bill tripled|write stems next to each number
the print shop trims three millimetres|names at the edge of the programme were cut off|keep text a finger's width from the edge
the cellar floods when the river is high|chairs of the festival were ruined twice|store chairs on the upper floor in spring
the guide dog may enter the dining room|a guest was sent away and wrote to the paper|show the rule to new waiters
stamps of the old series are not valid|three hundred invitations came back|use up the old ones only with a surcharge
the observatory is dark on purpose|a visitor's lamp spoiled a night of pictures|hand out red lamps at the gate
ski passes are bound to a photo|borrowed passes were taken at the lift|bring a photo for every child
the tea from the south is sold by the pound|prices on the board were too low by half|convert the weight when prices are written
the organ needs an hour to warm up|it was out of tune at a noon concert|switch it on before the doors open
the rowing club locks the boats at eight|a crew could not return its boat in June|leave a key with the harbour master
the quarry blasts on Tuesday mornings|a school trip was stopped at the gate|visit the quarry on other days
"""
UNRELATED_LESSONS: Sequence[LessonText] = tuple(
    LessonText(*line.split("|")) for line in _UNRELATED.strip().splitlines()
)
