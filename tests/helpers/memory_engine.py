"""An engine for the catalogue's own rules: it remembers what it was given, and loads nothing."""

import asyncio


class Memory:
    """An engine that loads nothing; `failure` is raised by the next load."""

    def __init__(self):
        self.loaded, self.num_added, self.failure = [], 0, None

    async def add(self, version):
        await asyncio.sleep(0.01)
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        self.num_added += 1
        version.lora_id = self.num_added
        version.listed, version.engine = f"listed-{version.lora_id}", version
        self.loaded.append(version)

    async def remove(self, version):
        self.loaded.remove(version)

    async def touch(self, version):
        self.loaded.append(self.loaded.pop(self.loaded.index(version)))

    def gone(self, name):
        return LookupError(name)
