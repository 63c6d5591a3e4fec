"""A PostgreSQL of its own in a folder that goes away, from Debian's package."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path


def need(program, package):
    """Debian's package where a program is missing and may be installed."""
    if shutil.which(program) is None:
        if os.geteuid() == 0:
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
                subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if shutil.which(program) is None:
            sys.exit(f"`{program}` is not installed: apt-get install {package}")


class Postgres:
    """A server of its own, gone afterwards."""

    def __init__(self, folder):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found:
            need("pg_ctlcluster", "postgresql")
            found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.programs = found[-1].parent
        self.folder = Path(folder)
        self.as_user = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            account = pwd.getpwnam("postgres")
            self.as_user = account.pw_uid
            os.chown(folder, account.pw_uid, account.pw_gid)
        settings = "shared_buffers=512MB\neffective_cache_size=4GB\nmax_wal_size=4GB\nwork_mem=64MB\n"
        settings += f"listen_addresses=''\nunix_socket_directories='{folder}'\n"
        self.run("initdb", "-D", self.folder / "data", "-U", "chat", "-A", "trust", "--locale=C", "--encoding=UTF8")
        with open(self.folder / "data/postgresql.conf", "a") as file:
            file.write(settings)
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "start")
        self.parameters = f"host={folder} user=chat dbname=chat"
        self.renew()

    def run(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self.as_user, cwd=self.folder, env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})

    def renew(self):
        """An empty database."""
        self.run("dropdb", "--if-exists", "--force", "-h", self.folder, "-U", "chat", "chat")
        self.run("createdb", "-h", self.folder, "-U", "chat", "chat")

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "fast", "-w", "stop")
