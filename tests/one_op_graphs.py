"""Run in a child beside torch: which operators the NNC pass and the legacy pass
take, found by handing each pass one small graph an operator. Prints one JSON
object."""

import itertools
import json

import torch

C = torch._C


def tensor(dtype):
    return f"{dtype}(4, 4, strides=[4, 1], requires_grad=0, device=cpu)"


def constant(kind, name, integers):
    """The text of a constant argument, or None for a kind that no candidate
    needs."""
    if kind in ("number", "Scalar"):
        return ("int", "2") if integers else ("float", "2.")
    if kind == "int":
        return "int", {
            "dim": "1",
            "end_dim": "1",
            "dim1": "1",
            "dtype": "6",
            "dim0": "0",
        }.get(name, "1")
    if kind in ("List[int]", "int[]"):
        return "int[]", {
            "dim": "[1]",
            "size": "[4, 4]",
            "shape": "[4, 4]",
            "dims": "[1, 0]",
        }.get(name, "[1, 1]")
    return {
        "float": ("float", "0.5"),
        "bool": ("bool", "0"),
        "str": ("str", '"none"'),
        "Device": ("Device", '"cpu"'),
    }.get(kind)


def graph(schema, dtype, integers, first):
    """The graph of the operator with an aten::neg before it (``first``) or after
    it; None if it cannot be written."""
    parameters, lines, arguments = [], [], []
    for index, argument in enumerate(schema.arguments):
        kind, value = str(argument.type), f"%a{index}"
        if kind in ("Tensor", "List[Tensor]", "Tensor[]"):
            own = "Bool" if argument.name in ("condition", "mask") else dtype
            parameters.append(f"{value} : {tensor(own)}")
            if kind != "Tensor":
                lines.append(
                    f"{value}_list : Tensor[] = prim::ListConstruct({value}, {value})"
                )
                value += "_list"
            elif (
                first
                and own != "Bool"
                and not any("aten::neg" in line for line in lines)
            ):
                lines.append(f"%n : {tensor(own)} = aten::neg({value})")
                value = "%n"
        elif kind.startswith("Optional") or kind.endswith("?"):
            lines.append(f"{value} : NoneType = prim::Constant()")
        else:
            found = constant(kind, argument.name, integers)
            if found is None:
                return None
            lines.append(
                f"{value} : {found[0]} = prim::Constant[value={found[1]}]()"
            )
        arguments.append(value)
    if not parameters or [str(one.type) for one in schema.returns] != ["Tensor"]:
        return None
    lines.append(f"%o : {tensor(dtype)} = {schema.name}({', '.join(arguments)})")
    if not first:
        lines.append(f"%z : {tensor(dtype)} = aten::neg(%o)")
    body = "\n  ".join([*lines, "return (%o)" if first else "return (%z)"])
    return f"graph({', '.join(parameters)}):\n  {body}\n"


def takes(fuse, kind, name, texts):
    for text in texts:
        try:
            parsed = C.parse_ir(text)
            fuse(parsed)
        except RuntimeError:
            continue
        for group in parsed.findAllNodes(kind, True):
            if any(node.kind() == name for node in group.g("Subgraph").nodes()):
                return True
    return False


def main():
    C._jit_override_can_fuse_on_cpu(True)
    C._jit_override_can_fuse_on_cpu_legacy(True)
    C._jit_set_te_must_use_llvm_cpu(False)
    C._jit_set_texpr_reductions_enabled(True)
    passes = {
        "nnc": (C._jit_pass_fuse_tensorexprs, "prim::TensorExprGroup"),
        "legacy": (lambda one: C._jit_pass_fuse(one, False), "prim::FusionGroup"),
    }
    found = {name: set() for name in passes}
    for schema in C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or any(
            one.name == "out" for one in schema.arguments
        ):
            continue
        choices = itertools.product(
            ("Float", "Long", "Bool"), (False, True), (False, True)
        )
        texts = [
            text for text in (graph(schema, *choice) for choice in choices) if text
        ]
        for name, (fuse, kind) in passes.items():
            if schema.name not in found[name] and takes(
                fuse, kind, schema.name, texts
            ):
                found[name].add(schema.name)
    print(json.dumps({name: sorted(ops) for name, ops in found.items()}))


if __name__ == "__main__":
    main()
