"""Write the sample traces of this folder: ``python traces/make.py [DIR]``. The same bytes every time.

All numbers come from the built-in generator (seed 0) and keyed draws; no row of a published trace is here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from lumen_policy.trace.keyed import keyed
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import PS_PER_S, Trace
from lumen_policy.trace.write import write_trace

ROWS = 120
SAMPLES = 1000
"""Purpose key of this script's own draws."""


def draws(stream: int, count: int, below: int) -> list[int]:
    """Integers 0 … below − 1, keyed by (stream, index)."""
    return [draw * below >> 64 for draw in keyed(0, SAMPLES, stream, count).tolist()]


def hash_ids(trace: Trace, block_tokens: int, stream: int) -> list[list[int]]:
    """Block ids of each prompt: every third request starts with the blocks of an earlier one."""
    ids: list[list[int]] = []
    fresh = 0
    parents = draws(stream, len(trace), 1 << 30)
    for i, prompt in enumerate(trace.prompt_tokens.tolist()):
        count = -(-prompt // block_tokens)
        shared = ids[parents[i] % i][: max(0, count - 1)] if i and i % 3 == 0 else []
        ids.append(shared + list(range(fresh, fresh + count - len(shared))))
        fresh += count - len(shared)
    return ids


def azure(path: Path, trace: Trace) -> None:
    """As published: CRLF, and no end of the last line."""
    write_trace(trace, path, "azure")
    path.write_bytes(path.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n"))


def mooncake(path: Path, trace: Trace) -> None:
    """Whole milliseconds."""
    rows = zip(trace.arrival_ps.tolist(), *lengths(trace), hash_ids(trace, 512, 1), strict=True)
    path.write_text(
        "".join(
            json.dumps(
                {
                    "timestamp": time // 10**9,
                    "input_length": prompt,
                    "output_length": output,
                    "hash_ids": ids,
                }
            )
            + "\n"
            for time, prompt, output, ids in rows
        )
    )


def bailian(path: Path, trace: Trace) -> None:
    """Seconds with three decimals; every third chat continues another one."""
    rows = zip(trace.arrival_ps.tolist(), *lengths(trace), hash_ids(trace, 16, 2), strict=True)
    lines = []
    for i, (time, prompt, output, ids) in enumerate(rows):
        record = {
            "chat_id": i,
            "parent_chat_id": i - 1 if i % 3 == 0 and i else -1,
            "timestamp": time // 10**9 / 1000,
            "input_length": prompt,
            "output_length": output,
            "type": "text",
            "turn": 2 if i % 3 == 0 and i else 1,
            "hash_ids": ids,
        }
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))


def burstgpt(path: Path, trace: Trace) -> None:
    """Whole seconds; every fifteenth request failed and has no tokens."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    for i, (time, prompt, output) in enumerate(zip(trace.arrival_ps.tolist(), *lengths(trace), strict=True)):
        if i % 15 == 7:
            prompt = output = 0
        lines.append(f"{time // PS_PER_S},ChatGPT,{prompt},{output},{prompt + output},Conversation log")
    path.write_text("\n".join(lines) + "\n")


def burstgpt_sessions(path: Path, trace: Trace) -> None:
    """Release 3: two more columns; sessions of up to four turns whose prompts hold their history."""
    lines = ["Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    history: dict[int, int] = {}
    sessions = draws(3, len(trace), len(trace) // 3)
    for time, session, new, output in zip(trace.arrival_ps.tolist(), sessions, *lengths(trace), strict=True):
        prompt = history.get(session, 0) + new
        history[session] = prompt + output
        clock = f"{time // PS_PER_S}.{time % PS_PER_S // 10**11}"
        tokens = f"{prompt},{output},{prompt + output}"
        lines.append(f"{clock},s{session:03d},{output / 25:.2f},GPT-4,{tokens},Conversation log")
    path.write_text("\n".join(lines) + "\n")


def length_only(path: Path, trace: Trace) -> None:
    """No times; pd_ratio is decode/prefill."""
    lines = ["num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio"]
    lines += [f"{p},{d},{p + d},{d / p}" for p, d in zip(*lengths(trace), strict=True)]
    path.write_text("\n".join(lines) + "\n")


def rate_windows(path: Path, trace: Trace) -> None:
    """Twelve windows of ten minutes, two of them empty."""
    del trace
    lines = []
    for i, draw in enumerate(draws(4, 12, 100)):
        family, shape = (("Gamma", 0.25), ("Weibull", 0.5))[i % 2]
        rate = 0.0 if i in (3, 8) else (5 + draw) / 100
        tail = f"{shape},{1 / rate / (4 if i % 2 == 0 else 2) * (16 if i % 2 == 0 else 1)}" if rate else "0,0"
        lines.append(f"{i * 600},{rate or 0},{2.0 if rate else 0},{family if rate else ''},{tail}")
    path.write_text("\n".join(lines) + "\n")


def bench_result(path: Path, trace: Trace) -> None:
    """As the vLLM benchmark saves it, the fields of a reader only; one failed request."""
    prompts, outputs = lengths(trace)
    outputs[5] = 0
    result = {
        "request_rate": 5.5,
        "total_input_tokens": sum(prompts),
        "total_output_tokens": sum(outputs),
        "input_lens": prompts,
        "output_lens": outputs,
        "start_times": [812.5 + time // 10**6 / 10**6 for time in trace.arrival_ps.tolist()],
    }
    path.write_text(json.dumps(result) + "\n")


def faults(path: Path, trace: Trace) -> None:
    """Thirty faults of twenty nodes in 90 days, as start and end events."""
    del trace
    events = []
    node, start, repair = draws(5, 30, 20), draws(6, 30, 90_000), draws(7, 30, 20_000)
    for n, begin, length in zip(node, start, repair, strict=True):
        kind = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "sample"}
        for name, at in (("fault_start", begin), ("fault_end", begin + length)):
            event = {"node_id": f"node-{n:02d}", "event_time": at / 1000, "event_type": name}
            events.append({**event, "fault_type": kind})
    events.sort(key=lambda event: (event["event_time"], event["event_type"] == "fault_end"))
    path.write_text(json.dumps(events, indent=1) + "\n")


def lengths(trace: Trace) -> tuple[list[int], list[int]]:
    """Prompt and output tokens."""
    return trace.prompt_tokens.tolist(), trace.output_tokens.tolist()


def plain(format: str) -> Callable[[Path, Trace], None]:
    """A sample that is written as it is."""

    def write(path: Path, trace: Trace) -> None:
        write_trace(trace, path, format)

    return write


FILES: dict[str, Callable[[Path, Trace], None]] = {
    "azure.csv": azure,
    "bailian.jsonl": bailian,
    "bench_result.json": bench_result,
    "burstgpt.csv": burstgpt,
    "burstgpt_sessions.csv": burstgpt_sessions,
    "faults.json": faults,
    "generic.csv": plain("csv"),
    "generic.jsonl": plain("jsonl"),
    "generic.parquet": plain("parquet"),
    "lengths.csv": length_only,
    "mooncake.jsonl": mooncake,
    "servegen.csv": rate_windows,
    "splitwise.csv": plain("splitwise"),
    "vidur.csv": plain("vidur"),
}


def main() -> None:
    """Write every sample."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    trace = built_in_trace(seed=0, requests=ROWS)
    for name, write in FILES.items():
        write(folder / name, trace)


if __name__ == "__main__":
    main()
