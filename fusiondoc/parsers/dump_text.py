"""Dumps that carry text rather than figures: recognised, so that they do not count as unknown lines.

Formats: PYTORCH_NVFUSER_DUMP of torch 1.11 to 2.1 (fusion_ir, kernel_ir, segmented_fusion,
scheduler_params, ca_map,
...), all to stdout except scheduler_params. A dump starts with a header; what follows belongs to it as
long as
it has the shape of such dumps.
"""

from __future__ import annotations

import re

HEADER = re.compile(
    rb"%kernel(?:_math)? \{$|KERNEL \(|\d+ {2,}(?:FOR |IF |T\d+_|[idbf]\d+ )|Segment the fusion"
    rb"|Arguments for (?:kernel|fusion) ?\d+"
    rb"|Segmented_Fusion(?: Dump:|\{)"
    rb"|\*\*\*(?:Runtime|Accepted)\*\*\*"
    rb"|\*\*Segmenter\*\* "
    rb"|Scheduler _\S+_ \*\*\*rejected\*\*\* because : "
    rb"|=+ (?:Pointwise|Reduction|Transpose|Persistent|Matmul|No-op) (?:Stats|Parameters) =+"
    rb"|=+ UNSUPPORTED REDUCTION HEURISTIC =+|={36}$"
    rb"|=+ (?:No bank confliction|Bank confliction) =+"
    rb"|=+ ?(?:RUNNING|FINISHED RUNNING) FUSION SEGMENTS ?=+"
    rb"|Compute at map \{ ?$|\} compute at map"
    rb"|Parallel dimension map:|HaloInfo:|SyncMap:"
    rb"|(?:MostInlined)?TransformPropagator::propagate"
    rb"|segmentation phases \{"
    rb"|Run kernel:$|With inputs:$|Compiler log:|With arguments:|Compile options: "
    rb"|PRINTING: __tmp_\w+\.\w+$"
    rb"|Inputs:$|Outputs:$|Reduction and semaphore buffers:$|Intermediate global buffers:"
    rb"|TransformPrinter ?:|maxrregcount|Max register count: |Index type: |num_sms="
    rb"|NVRTC Compile Parameters|ptxas optimization level manually set"
    rb"|Sibling map:|disjoint sets ?\{|inputs: $|outputs: $|END\.$|Permissive map:|Exact map:"
    rb"|Loop map:|Consumer maps:|Producer maps:|AlmostExact map:"
    rb"|tensor dtype: |input type: PhiloxCudaState|def nvfuser_fusion_id"
)

LINE = re.compile(
    rb"[ \t}{]|$|T\d+_\w|T\d+\[|TV\d+|[idbfc]\d+ ?=|[idbfc]\d+\b|\d+ |\d+(?:\.\d+)?(?:e[+-]?\d+)?$|-?\d+$"
    rb"|g\{|e\{|r\{|group details|groups: |edges: |Expr: |input conflict|=+$|-- |//|root domain"
    rb"|(?:num|n|elem|max|total|vectorize|broadcast|fusion|inner|outer|has|reduction"
    rb"|iter)[\w ]*: ?[-\d(\[]|\w[\w -]* Schedule|Vectorize|Unroll|Red On|Persistent Kernel"
    rb"|Project Persistent"
    rb"|Multiple Reds|Register|Iteration Domain|Inner Reduction|Outer Reduction|Welford|Tag:|block\(|grid\("
    rb"|Batches per block|compute_|\w+ = |FOR |IF |KERNEL|from: |to: |replay"
    rb"|Inputs:|Outputs:|\(T\d+|blockIdx|threadIdx|domain|rfactor|contiguity|Halo|is_zero|RAW|WAR"
)


class DumpText:
    """Whether the lines that pass belong to a text dump."""

    def __init__(self) -> None:
        self.inside = False
        self._text = False

    def takes(self, line: bytes) -> bool:
        """True if this line starts or continues a dump."""
        if HEADER.match(line):
            self.inside = self._text = True
            return True
        if self.inside:
            if self._text and LINE.match(line):
                return True
            self.inside = False
        return False

    @property
    def goes_on(self) -> bool:
        """Whether a next line of the shape LINE belongs to the dump."""
        return self.inside and self._text

    def enter(self) -> None:
        """A line of a dump that another parser took: an empty line after it belongs to it."""
        self.inside = True
        self._text = False

    def leave(self) -> None:
        """Something else was printed: a dump never goes on after it."""
        self.inside = False
