"""The network as files, in the forms that the systems like to load."""

import re
import subprocess
import sys

AGE = re.compile(r'"AGE":(\d+)')
COMPLETION = re.compile(r'"completion":(\d+)')


def make(isomer, scale, folder):
    """`profiles.jsonl`, `edges.tsv`, the questions and the answers come from `isomer generate`; beside them `people.csv`
    (number, key, age, completion, document), `friends.csv` (two numbers) and `friends_by_key.csv` (two keys)."""
    if (folder / "complete").exists():
        return
    print(f"making the network at scale {scale:g}", file=sys.stderr)
    generate = [isomer, "generate", folder, "--scale", str(scale), "--questions"]
    subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
    with open(folder / "profiles.jsonl") as profiles, open(folder / "people.csv", "w") as people:
        for at, line in enumerate(profiles, 1):
            document = line.rstrip("\n").replace('"', '""')
            age = AGE.search(line)
            completion = COMPLETION.search(line).group(1)
            people.write(f'{at},P{at},{age.group(1) if age else ""},{completion},"{document}"\n')
    with open(folder / "friends.csv", "w") as out:
        subprocess.run(["sed", r"/^#/d; s/P//g; s/\t/,/", folder / "edges.tsv"], check=True, stdout=out)
    with open(folder / "friends_by_key.csv", "w") as out:
        subprocess.run(["sed", r"/^#/d; s/\t/,/", folder / "edges.tsv"], check=True, stdout=out)
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    (folder / "complete").touch()


def answers(folder, job):
    """The right answer of a job as lines."""
    return (folder / "answers" / f"{job}.txt").read_text().split("\n")[:-1]
