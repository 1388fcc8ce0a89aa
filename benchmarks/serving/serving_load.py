"""Part R9 of serving_soak: many clients ask at twice the rate of the server while versions are swapped."""

import asyncio
import collections
import os
import random
import shutil
import time

import aiohttp

from benchmarks.serving import serving_models

_ROUNDS = 400  # a few milliseconds for each row, so that the model, and not the client, limits the rate


async def _ask(session, url, ticket, seconds, outcomes):
    """Sends a request. Counts its outcome, and keeps the time of an answer."""
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
    """Answers per second while `queue` clients each send a new request after each answer."""
    outcomes, end = collections.Counter(), time.monotonic() + duration

    async def client():
        while time.monotonic() < end:
            await _ask(session, url, 1, [], outcomes)

    await asyncio.gather(*(client() for _ in range(queue)))
    return sum(outcomes.values()) / duration


async def _swap(server, base_path, originals, swaps, duration):
    """Adds new versions and removes the old ones, evenly over the time. Returns how many took over."""
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
    """Puts the load on a running server.

    Args:
        server: serving_models.Server.
        base_path: str. Directory of the served versions.
        originals: list of str. Two models, which take turns as new versions.
        queue: int. Limit of the requests that are under way.
        options: object with clients, swaps, load_seconds and capacity_seconds.
        say: function that is called with each line of progress.

    Returns:
        (number of swaps, Counter of outcomes, sorted seconds of answers, most requests under way, duration in seconds).
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
        tickets, chance = iter(range(10**9)), random.Random(7)
        end = time.monotonic() + options.load_seconds
        swapping = asyncio.ensure_future(_swap(server, base_path, originals, options.swaps, options.load_seconds))

        async def client():
            due = time.monotonic() + chance.random() * interval
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
    """R9: no accepted request may fail, the queue must keep its bound, and every swap must take place.

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
    answered = sum(count for outcome, count in outcomes.items() if outcome.startswith("version "))
    failures = {outcome: count for outcome, count in outcomes.items() if not outcome.startswith(("version ", "503"))}
    faults = [f"{count} x {outcome}" for outcome, count in failures.items()]
    faults += [f"{most:.0f} under way, over the bound of {queue}"] * (most > queue)
    faults += ["nothing was turned away: that was no overload"] * (not outcomes["503"])
    faults += [f"{taken_over} of {options.swaps} swaps"] * (taken_over < options.swaps)
    faults += [f"left behind: {states}"] * (sorted(states.values()) != ["AVAILABLE"])
    times = ", ".join(f"p{share} {1000 * seconds[int(len(seconds) * share / 100)]:.0f} ms" for share in (50, 95, 99))
    total = sum(outcomes.values())
    return not faults, (
        f"{total:,} requests in {duration:.0f} s: {answered:,} answered ({answered / duration:.0f}/s; "
        f"{times}), {outcomes['503']:,} turned away with 503, {sum(failures.values())} failed; at most "
        f"{most:.0f} under way (bound {queue}); {taken_over} swaps; resident {before:.0f} -> "
        f"{after:.0f} MB" + "".join(f"; {fault}" for fault in faults)
    )
