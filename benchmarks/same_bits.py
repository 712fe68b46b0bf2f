"""Encode messy contexts and arms, and count statistics, for several processors; compare them bit for bit.

Each run is a separate process, whose kernels are compiled for another processor, and whose NumPy and C
library use fewer vector instructions. Run it with ``python -m benchmarks.same_bits``; with ``--digest``, it
prints the digests of a single run, to compare versions of Python, NumPy and Numba.
"""

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from benchmarks.lift import weights
from glcb._arrays import Arrays
from glcb.bandit.catalog import EncodedCatalog
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.explore.shares import bounded, share_bounds
from glcb.service.core.guard import GuardSums
from glcb.service.core.lift import LiftSums
from glcb.service.core.sums import ArmSums
from glcb.service.core.vitals import Vitals

CONTEXTS = 400
NUMPY_WITHOUT_VECTORS = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3 AVX512_SKX AVX512CD AVX512F FMA3 AVX2"}
"""The names of one version of NumPy are unknown to another, which ignores them."""
_LIBRARY = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX2_Usable,-FMA,-FMA_Usable"}

HOST: Mapping[str, str] = {}
"""The unchanged processor."""
GENERIC: Mapping[str, str] = {"NUMBA_CPU_NAME": "generic", **NUMPY_WITHOUT_VECTORS, **_LIBRARY}
"""The oldest processor of the same architecture, for code that is chosen at run time."""


def processor(name: str) -> Mapping[str, str]:
    """Return the environment of a processor by its name in LLVM. Without features, Numba takes the host's."""
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", **NUMPY_WITHOUT_VECTORS}


def digests(environment: Mapping[str, str], cache: Path, python: str = sys.executable) -> dict[str, str]:
    """Return the digests of a run in another process.

    Parameters
    ----------
    environment
        Changes of the environment.
    cache
        A folder for kernels, which are compiled anew if it is empty.
    python
        The interpreter.
    """
    command = [python, "-W", "ignore", "-m", "benchmarks.same_bits", "--digest"]
    own = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment}
    root = Path(__file__).parents[1]
    answer = subprocess.run(command, cwd=root, env=own, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def encode_all(contexts: int = CONTEXTS, seed: int = 0) -> dict[str, str]:
    """Return digests of encoded contexts and arms, and of the state of their encoders."""
    random = Random(seed)
    declared = parse_schema({"hour": (-0.25, 23.7), "plan": ["free", "paid"], "seen": "date"})
    named = Encoder(declared, _context(random, 0), None)
    dense = Encoder({}, _vector(random, 160), None)
    found = {
        "contexts": _encode(named, (_context(random, number) for number in range(contexts))),
        "vectors": _encode(dense, (np.array(_vector(random, 160)) for _ in range(contexts))),
    }
    found["contexts encoder"] = _digest(*named.snapshot())
    found["vectors encoder"] = _digest(*dense.snapshot())
    catalog = EncodedCatalog(
        {f"arm {number}": _features(random) for number in range(12)}, {"price": (0.01, 99.9)}
    )
    rows: Arrays = {}
    for number in range(contexts // 8):
        names = random.sample(range(60), 5)
        request = None if number % 4 == 0 else {f"item {name}": _features(random) for name in names}
        prepared = catalog.prepare(request, None)
        catalog.commit(prepared)
        rows[str(number)] = prepared.candidates.features
    found["arms"] = _digest({}, rows)
    found["arms encoder"] = _digest(*catalog.snapshot())
    return found


def count_all(decisions: int = 6000, seed: int = 0) -> dict[str, str]:
    """Return digests of the sums over decisions and rewards."""
    random = Random(seed)
    vitals = Vitals()
    limits = share_bounds({0: (0.1, 0.2), 3: (0.05, 0.11)}, {place: place for place in range(6)})
    shares, sums = {}, []
    for number in range(decisions):
        at, missing = 1e9 + 3.7 * number, 0.05 + 0.3 * (number > decisions // 2)
        names = [f"f{place}" for place in range(20) if random.random() > missing * place / 10]
        vitals.features.add(dict.fromkeys(names, 1), at)
        vitals.arrivals.add_decision(at)
        if random.random() < 0.1:
            vitals.arrivals.add_report(9 * random.random())
        if number % 100 == 0:
            sums.append(msgspec.to_builtins(vitals))
        chances = np.array([random.random() for _ in range(6)])
        shares[str(number)] = bounded(chances / math.fsum(chances), limits)
        if number % 5 == 0:  # a long sum would absorb the last bits of an addend
            lift, arm, guard = LiftSums(), ArmSums(), GuardSums()
            sums.append((lift, arm, guard))
        reward, chance = random.random(), 0.1 + 0.8 * random.random()
        weighted = weights(chance, min(chance, 0.3), max(chance, 0.3), 3, holdout=0.07)
        assert weighted is not None  # there is a holdout
        weighted.modeled, weighted.predicted = random.random() - 0.5, random.random()
        lift.add(reward, weighted, at=at, judged=True)
        arm.add(reward, arm.center)
        guard.add(reward, arm.center, (weighted.lift, weighted.lowest, weighted.highest), chance)
    return {"statistics": _digest({"sums": msgspec.to_builtins(sums)}, {}), "shares": _digest({}, shares)}


def _encode(encoder: Encoder, contexts: Iterable[Any]) -> str:
    encoded = {}
    for number, context in enumerate(contexts):
        one = encoder.encode(context)
        encoder.commit(one)
        encoded[str(number)] = one.x
    return _digest({}, encoded)


def _digest(metadata: Mapping[str, Any], arrays: Arrays) -> str:
    digest = sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


# ---- contexts ---------------------------------------------------------------------------------------
# They are drawn without logarithms or powers, so that they are the same everywhere.


def _number(random: Random) -> float:
    """Draw a number of any magnitude."""
    return math.ldexp(random.random() - 0.5, random.choice((0, 1, 4, 20, -20, 60, -300, 900)))


def _vector(random: Random, length: int) -> list[float]:
    """Draw a vector with few large components."""
    return [math.ldexp(random.random() - 0.3, 4 - i % 7) for i in range(length)]


def _context(random: Random, number: int) -> dict[str, Any]:
    """Draw a context. Some have new features, missing values or values of another kind."""
    first = datetime.datetime(2026, 1, 1, 7, 45, tzinfo=datetime.UTC)
    day = first + datetime.timedelta(minutes=random.randrange(10**6))
    context: dict[str, Any] = {
        "age": random.randrange(18, 90),
        "spent": _number(random),
        "hour": 30 * random.random() - 3,
        "plan": random.choice(("free", "paid", "trial")),
        "country": f"c{min(random.randrange(1, 40), random.randrange(1, 40))}",
        "member": random.random() < 0.4,
        "user": {"visits": random.randrange(10**6), "device": {"type": random.choice("abc")}},
        "topic": [random.random() for _ in range(6)],
        "embedding": _vector(random, 200),
        "tags": random.sample(("new", "sale", "eco", "gift"), random.randrange(3)),
        "seen": {"date": day.isoformat()},
    }
    if number > 50 and random.random() < 0.5:
        context["late"] = random.choice((_number(random), _number(random), "text"))
        context["second embedding"] = np.array(_vector(random, 333), np.float32)
    if number > 100 and random.random() < 0.5:
        context[f"rare {random.randrange(30)}"] = random.choice((1.5, "x", True, None))
    if number and random.random() < 0.3:
        odd = (None, math.nan, math.inf, -0.0, 10**400, 1e299, 5e-324, "text", "3.25", True)
        context[random.choice(("age", "spent", "hour", "plan", "country", "member"))] = random.choice(odd)
    if number and random.random() < 0.2:
        del context[random.choice(("age", "spent", "member", "topic", "embedding", "user"))]
    return context


def _features(random: Random) -> dict[str, Any]:
    """Draw the features of an arm."""
    features: dict[str, Any] = {
        "price": 100 * random.random(),
        "weight": _number(random),
        "genre": f"g{random.randrange(9)}",
        "new": random.random() < 0.5,
        "embedding": _vector(random, 150),
    }
    if random.random() < 0.2:
        features["color"] = random.choice("rgb")
    return features


def main() -> None:
    """Compare the processors named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of processors whose instructions this one has")
    parser.add_argument("--digest", action="store_true", help="print the digests of this process")
    arguments = parser.parse_args()
    if arguments.digest:
        print(json.dumps(encode_all() | count_all()))
        return
    names = arguments.names or (["ivybridge", "skylake"] if platform.machine() == "x86_64" else [])
    runs = {"host": HOST, "generic": GENERIC, **{name: processor(name) for name in names}}
    results = {}
    for name, environment in runs.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = digests(environment, Path(folder))
        different = [part for part, digest in results[name].items() if digest != results["host"][part]]
        print(f"{name:<12} {'different: ' + ', '.join(different) if different else 'the same bits'}")
    if any(result != results["host"] for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
