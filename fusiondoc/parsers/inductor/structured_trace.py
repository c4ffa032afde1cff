"""Records of TORCH_TRACE (``trace_structured`` in ``torch/_logging/_internal.py``):
a line with a JSON object, then its payload in lines that begin with a tab. Most
records are events for a profile, which are skipped."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from fusiondoc.fusers.inductor.compilation import Line, Recompile
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.graph_breaks import graph_break, guards_of
from fusiondoc.parsers.inductor.graph_parts import PartsOfProcess
from fusiondoc.parsers.inductor.provenance import object_of
from fusiondoc.parsers.inductor.text_lines import TextLines

HEAD = re.compile(
    rb"(?:\[rank\d{1,6}\]:)?[VDIWEC]\d{4} [\d:.]{8,16} +\d{1,10} (\S{1,400}?):\d{1,7}\] (\{\"(\w{1,80})\".*)",
    re.DOTALL,
)
"""``V1121 19:25:46.831000 469 torch/_inductor/graph.py:2575]
{"inductor_output_code": ...``"""

UNREAD = frozenset(
    (
        b"chromium_event",
        b"describe_storage",
        b"describe_tensor",
        b"describe_source",
        b"dynamo_guards",
        b"dynamo_cpp_guards_str",
        b"guard_added_fast",
        b"guard_added",
        b"create_symbol",
        b"create_unbacked_symbol",
        b"propagate_real_tensors",
        b"expression_created",
        b"symbolic_shape_specialization",
        b"dynamo_output_graph",
        b"optimize_ddp_split_graph",
        b"optimize_ddp_split_child",
        b"aot_forward_graph",
        b"aot_backward_graph",
        b"aot_inference_graph",
        b"aot_joint_graph",
        b"compiled_autograd_graph",
        b"link",
        b"dump_file",
        b"missing_fake_kernel",
        b"mismatched_fake_kernel",
    )
)
"""Kinds of records without facts that are needed here."""

MOST_PAYLOAD = 64 << 20
"""Number of bytes of a payload that are read; the rest is skipped."""

_SECONDS = {
    "entire_frame_compile_time_s": "frame",
    "backend_compile_time_s": "backend",
    "inductor_compile_time_s": "inductor",
    "code_gen_time_s": "code",
    "triton_compile_time_us": "triton",
}
_PHASE = {"compilation_metrics": "forward", "bwd_compilation_metrics": "backward"}


class StructuredTrace:
    """Reads the records of one process in order."""

    def __init__(self, parts: PartsOfProcess) -> None:
        self._parts = parts
        self._strings: dict[int, str] = {}
        self._reasons: dict[str | None, tuple[tuple[str, ...], Line]] = {}
        """Guards that failed, until the start of the frame shows which function
        they belong to."""
        self.unread: Counter[str] = Counter()
        """Number of records of unknown kinds."""

    def take(
        self, kind: bytes, head: bytes, payload: list[bytes], line: Line
    ) -> None:
        """Read a record.

        Args:
            kind: the first key of its object.
            head: the text of the object.
            payload: its lines, without the tab.
            line: position of its head.
        """
        record = object_of(head)
        self._parts.cut_records += not record or (
            "has_payload" in record and not payload
        )
        name = kind.decode("ascii", "replace")
        compile_id = compile_id_of(record)
        if name == "artifact":
            artifact = record.get("artifact")
            name = str(artifact.get("name")) if isinstance(artifact, dict) else name
        text = _text(payload)
        below = TextLines(line[0], line[1] + 1)
        if not self._of_graph(name, compile_id, text, below):
            self._of_dynamo(name, compile_id, record, text, line)

    def _of_graph(
        self, name: str, compile_id: str | None, text: str, lines: TextLines
    ) -> bool:
        """Read a record of a compiled graph; return False for any other record."""
        parts = self._parts
        if name == "inductor_post_grad_graph":
            parts.post_grad_graph(compile_id, text, lines)
        elif name == "inductor_output_code":
            parts.output_code(compile_id, text, lines)
        elif name == "inductor_provenance_tracking_node_mappings":
            parts.node_mappings(compile_id, text)
        elif name == "inductor_provenance_tracking_kernel_stack_traces":
            parts.kernel_stacks(compile_id, text)
        elif name == "triton_kernel_info":
            parts.kernel_info(compile_id, text)
        elif name == "fx_graph_cache_hit":
            parts.cache_hit(compile_id)
        else:
            return False
        return True

    def _of_dynamo(
        self,
        name: str,
        compile_id: str | None,
        record: dict[str, Any],
        text: str,
        line: Line,
    ) -> None:
        parts = self._parts
        if name == "dynamo_graph_break_reason":
            found = graph_break(text, compile_id, parts.rank, line)
            if found is not None:
                parts.breaks.append(found)
            else:
                parts.not_known(text)
        elif name == "recompile_reasons":
            self._reasons[compile_id] = (guards_of(_reasons(text)), line)
        elif name == "dynamo_start":
            self._frame_begins(compile_id, record)
        elif name in _PHASE:
            self._metrics(name, compile_id, record, line)
        elif name == "torch_version":
            parts.torch = str(object_of(text).get("version") or "") or parts.torch
        elif name == "str":
            self._string(record.get("str"))
        elif name not in _KNOWN:
            self.unread[name[:80]] += 1

    def _string(self, pair: object) -> None:
        """Read an entry of the string table: text and number."""
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):
            self._strings[pair[1] if isinstance(pair[1], int) else -1] = pair[0]

    def _frame_begins(self, compile_id: str | None, record: dict[str, Any]) -> None:
        waiting = self._reasons.pop(compile_id, None)
        if waiting is None:
            return
        start = record.get("dynamo_start")
        stack = start.get("stack") if isinstance(start, dict) else None
        frame = stack[-1] if isinstance(stack, list) and stack else None
        function = source = None
        if isinstance(frame, dict):
            function = str(frame.get("name"))
            file = frame.get("filename")
            named = self._strings.get(file) if isinstance(file, int) else None
            source = f"{named}:{frame.get('line')}" if named is not None else None
        guards, line = waiting
        self._parts.recompiles.append(
            Recompile(
                function, source, guards, compile_id, self._parts.rank, line=line
            )
        )

    def _metrics(
        self, name: str, compile_id: str | None, record: dict[str, Any], line: Line
    ) -> None:
        """Read the seconds of a compilation, and its error."""
        metrics = record.get(name)
        if not isinstance(metrics, dict):
            return
        if self._failed(compile_id, metrics, line):
            return
        parts = self._parts.of_phase(compile_id, _PHASE[name])
        if parts is None:
            return
        for key, stage in _SECONDS.items():
            value = metrics.get(key)
            if isinstance(value, (int, float)) and 0 <= value < 1e9:
                parts.seconds[stage] = value / (1e6 if key.endswith("_us") else 1.0)

    def _failed(
        self, compile_id: str | None, metrics: dict[str, Any], line: Line
    ) -> bool:
        """Read the error of a compilation; return False if it has none. An error
        after a graph break is not recorded."""
        error = metrics.get("fail_reason") or metrics.get("fail_type")
        if not isinstance(error, str):
            return False
        if not any(one.compile_id == compile_id for one in self._parts.breaks):
            file, first = metrics.get("co_filename"), metrics.get("co_firstlineno")
            known = isinstance(file, str) and isinstance(first, int)
            self._parts.failed_compilation(
                compile_id, error, f"{file}:{first}" if known else None, line
            )
        return True

    def close(self) -> None:
        """Finish at the end of the trace: reasons whose frame did not begin become
        recompiles without a function."""
        for compile_id, (guards, line) in self._reasons.items():
            self._parts.recompiles.append(
                Recompile(
                    None, None, guards, compile_id, self._parts.rank, line=line
                )
            )
        self._reasons.clear()


_KNOWN = frozenset(
    (
        "bwd_compilation_metrics_runtime",
        "compilation_metrics_runtime",
        "before_pre_grad_graph",
        "after_pre_grad_graph",
        "before_joint_graph",
        "after_joint_graph",
        "before_post_grad_graph",
        "after_post_grad_graph",
        "fx_graph_runnable",
        "fx_graph_cache_miss",
        "fx_graph_cache_bypass",
        "aotautograd_cache_hit",
        "aotautograd_cache_miss",
        "aotautograd_cache_bypass",
        "torch._functorch.config",
        "aot_forward_graph_fw_metadata",
        "aot_inference_graph_fw_metadata",
        "aot_joint_graph_fw_metadata",
        "stack",
    )
)
"""Records and artifacts that are known and have no facts that are needed here."""


def _text(payload: list[bytes]) -> str:
    return b"\n".join(payload).decode("utf-8", "replace")


def _reasons(text: str) -> list[str]:
    """Return the reasons of a recompile: from a JSON list (2.6), or one per
    line."""
    lines = text.strip().split("\n")
    if text.lstrip().startswith("["):
        value = object_of('{"reasons": ' + text + "}").get("reasons")
        if isinstance(value, list):
            return [part for part in value if isinstance(part, str)]
    return lines


def compile_id_of(record: dict[str, Any]) -> str | None:
    """Return ``0/0``, ``0/0_1``, ``!1/0/0`` for a record, in the form of logs; None
    without an id.

    ``CompileId`` and ``TraceId`` in ``torch/_guards.py``.
    """
    frame, compile_number = record.get("frame_id"), record.get("frame_compile_id")
    if not isinstance(frame, int) or not isinstance(compile_number, int):
        return None
    autograd, attempt = record.get("compiled_autograd_id"), record.get("attempt")
    text = f"{frame}/{compile_number}"
    if isinstance(autograd, int):
        text = f"!{autograd}/{text}"
    if isinstance(attempt, int) and attempt:
        return f"{text}_{attempt}"
    return text


_FILE_RANK = re.compile(r"dedicated_log_torch_trace_rank_(\d{1,6})_")


def rank_in_name(name: str) -> int | None:
    """Return the rank in the name of a TORCH_TRACE file; None without one."""
    found = _FILE_RANK.search(name)
    if found is None:
        return None
    return whole_number(found.group(1))
