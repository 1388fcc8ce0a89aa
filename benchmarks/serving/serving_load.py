"""Part R9 of serving_soak: clients send twice the requests that the server can answer while versions change."""

import asyncio
import collections
import os
import random
import shutil
import time

import aiohttp

from benchmarks.serving import serving_models
from keras_bert_app.errors import UserError

# Matrix products for each row. They take a few milliseconds, so that the model limits the rate, and not the client.
_ROUNDS = 400


async def _ask(session, url, ticket, seconds, outcomes):
    """Sends a request and counts its outcome. If the server answers, the time is appended to `seconds`."""
    start = time.perf_counter()
    try:
        async with session.post(
            f"{url}/v1/models/small:predict", json={"signature_name": "work", "instances": [ticket]}
        ) as response:
            answer = await response.json()
            if response.status == 200:
                (row,) = answer["predictions"]
                outcome = f"version {row['number']}" if row["ticket"] == ticket else "someone else's answer"
                seconds.append(time.perf_counter() - start)
            else:
                outcome = (
                    "503"
                    if response.status == 503 and "Retry-After" in response.headers
                    else f"{response.status} {answer}"
                )
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        outcome = f"{type(error).__name__} {error}"
    outcomes[outcome] += 1


async def _capacity(session, url, queue, duration):
    """Measures the answers per second while each of `queue` clients sends a new request after each answer."""
    outcomes, end = collections.Counter(), time.monotonic() + duration

    async def client():
        while time.monotonic() < end:
            await _ask(session, url, 1, [], outcomes)

    await asyncio.gather(*(client() for _ in range(queue)))
    answered = _answered(outcomes)
    if not answered:
        raise UserError(
            f"the server answered none of {sum(outcomes.values())} requests in {duration:g} s, the first with "
            f"{next(iter(outcomes))!r}; expected at least one answer; see load.log in --directory"
        )
    return answered / duration


def _answered(outcomes):
    return sum(count for outcome, count in outcomes.items() if outcome.startswith("version "))


async def _swap(server, base_path, originals, swaps, duration):
    """Adds new versions and removes the old ones, evenly over `duration` seconds. Returns how many took over."""
    taken_over = 0
    for version in range(2, swaps + 2):
        start = time.monotonic()
        await asyncio.to_thread(serving_models.put, originals[version % 2], base_path, version)
        while (await asyncio.to_thread(server.states, "small")).get(version) != "AVAILABLE":
            await asyncio.sleep(0.05)
            if time.monotonic() - start > 120:
                return taken_over
        taken_over += 1
        shutil.rmtree(os.path.join(base_path, str(version - 1)))
        await asyncio.sleep(max(0, duration / swaps - (time.monotonic() - start)))
    return taken_over


async def drive(server, base_path: str, originals: list[str], queue: int, options, say) -> tuple:
    """Measures the capacity of a running server, then sends requests at twice this rate and swaps versions.

    Args:
        server: serving_models.Server.
        base_path: str. Directory of the served versions.
        originals: list of str. Two models, which take turns as new versions.
        queue: int. The server's limit of requests under way, and the number of clients that measure the capacity.
        options: object with clients, swaps, load_seconds and capacity_seconds.
        say: function that is called with each line of progress.

    Returns:
        (number of swaps, Counter of outcomes, sorted seconds of answers, largest number of requests under way,
        duration in seconds).
    """
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        await _capacity(session, server.url, queue, 2)
        capacity = await _capacity(session, server.url, queue, options.capacity_seconds)
        interval = options.clients / (2 * capacity)
        say(
            f"capacity {capacity:.0f} requests/s; now {options.clients} clients, each a request every "
            f"{interval:.2f} s, for {options.load_seconds} s, {options.swaps} new versions meanwhile"
        )
        outcomes, seconds, most = collections.Counter(), [], 0
        tickets, generator = iter(range(10**9)), random.Random(7)
        end = time.monotonic() + options.load_seconds
        swapping = asyncio.ensure_future(_swap(server, base_path, originals, options.swaps, options.load_seconds))

        async def client():
            due = time.monotonic() + generator.random() * interval
            while due < end or not swapping.done():
                await asyncio.sleep(max(0, due - time.monotonic()))
                await _ask(session, server.url, next(tickets), seconds, outcomes)
                due = max(due + interval, time.monotonic())

        async def watch():
            nonlocal most
            while not swapping.done() or time.monotonic() < end:
                most = max(most, await asyncio.to_thread(server.metric, "serving_requests_under_way"))
                await asyncio.sleep(0.2)

        start = time.monotonic()
        await asyncio.gather(watch(), *(client() for _ in range(options.clients)))
        return await swapping, outcomes, sorted(seconds), most, time.monotonic() - start


def overload(directory: str, options, say) -> tuple[bool, str]:
    """R9: sends requests at twice the rate that the server can answer, and swaps versions meanwhile.

    No accepted request may fail. The number of requests under way must stay within its limit. Every new version must
    take over.

    Args:
        directory: str. Where the models and the log go.
        options: absl's FLAGS.
        say: function that is called with each line of progress.

    Returns:
        (whether the part passed, line of figures).
    """
    queue = max(1, options.clients // 4)  # so that most clients find the queue full
    originals = [os.path.join(directory, f"number-{number}") for number in (0, 1)]
    for number, original in enumerate(originals):
        serving_models.write(original, number, _ROUNDS)
    base_path = os.path.join(directory, "small")
    os.makedirs(base_path)
    serving_models.put(originals[1], base_path, 1)
    with serving_models.running(
        base_path, os.path.join(directory, "load.log"), max_queued_requests=queue, file_system_poll_wait_seconds=0.2
    ) as server:
        before = server.resident_mb()
        taken_over, outcomes, seconds, most, duration = asyncio.run(
            drive(server, base_path, originals, queue, options, say)
        )
        after, states = server.resident_mb(), server.states("small")
    answered = _answered(outcomes)
    failures = {outcome: count for outcome, count in outcomes.items() if not outcome.startswith(("version ", "503"))}
    faults = [f"{count} x {outcome}" for outcome, count in failures.items()]
    faults += ["no request was answered"] * (not answered)
    faults += [f"{most:.0f} requests under way, the limit is {queue}"] * (most > queue)
    faults += ["no request was turned away, so this was no overload"] * (not outcomes["503"])
    faults += [f"only {taken_over} of {options.swaps} new versions took over"] * (taken_over < options.swaps)
    faults += [f"the states of versions at the end are {states}, not one AVAILABLE"] * (
        sorted(states.values()) != ["AVAILABLE"]
    )
    shares = (50, 95, 99) if seconds else ()
    times = [f"p{share} {1000 * seconds[int(len(seconds) * share / 100)]:.0f} ms" for share in shares]
    total = sum(outcomes.values())
    return not faults, (
        f"{total:,} requests in {duration:.0f} s: {answered:,} answered ({answered / duration:.0f}/s; "
        f"{', '.join(times) or 'no times'}), {outcomes['503']:,} turned away with 503, "
        f"{sum(failures.values())} failed; at most {most:.0f} under way (bound {queue}); {taken_over} swaps; "
        f"resident {before:.0f} -> {after:.0f} MB" + "".join(f"; {fault}" for fault in faults)
    )
