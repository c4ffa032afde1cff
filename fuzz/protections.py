"""Takes each protection of SECURITY.md away for a moment, and runs its test:
``python fuzz/protections.py``.

A test that passes all the same protects nothing. Works on a copy of this repository
in a temporary folder; status 1 if a test did not fail, or a row of SECURITY.md has
no entry here. A part of a name as argument tries what has it alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from code_texts import replaced_once  # noqa: E402

_SECONDS = 240


@dataclass(frozen=True)
class Taken:
    """A protection, how it is taken away (``old`` becomes ``new`` in ``file``), and
    the test behind it."""

    what: str
    test: str
    file: str
    old: str
    new: str
    also: tuple[tuple[str, str, str], ...] = ()
    """File, old and new text of what stands behind it."""


_HOSTILE = "test_repro_hostile.py::"
_NAMED = "test_named_files.py::"
_LINES = "test_hostile_lines.py::"
_FOREIGN = "test_foreign_captures.py::"
_LEFT = "test_left_running.py::"
_SAID = "test_said.py::"

TAKEN = (
    Taken(
        "operators of repro",
        _HOSTILE + "test_what_no_group_holds_is_refused_by_name",
        "repro/permitted.py",
        "    if node.kind not in PRINTED:",
        "    if False:",
        (
            (
                "repro/permitted.py",
                "    if step.kind not in WRITTEN:",
                "    if False:",
            ),
        ),
    ),
    Taken(
        "operators and literals of repro of torch.compile",
        "test_repro_compiled.py::test_a_script_holds_only_operators_and_literals",
        "repro/of_fusers/compiled_script.py",
        "    if _TARGET.fullmatch(operator.target) is None:",
        "    if False:",
    ),
    Taken(
        "no operator with a file's name",
        _HOSTILE + "test_no_operator_that_is_written_takes_the_name_of_a_file",
        "repro/permitted.py",
        '"_size_if_not_equal", "broadcast_tensors")',
        '"_size_if_not_equal", "broadcast_tensors", "from_file")',
    ),
    Taken(
        "literals of repro",
        _HOSTILE + "test_what_no_group_holds_is_refused_by_name",
        "repro/permitted.py",
        "    if pattern is None or pattern.fullmatch(text) is None:",
        "    if False:",
    ),
    Taken(
        "text of a log in comments",
        _HOSTILE + "test_text_of_the_log_stays_in_comments",
        "repro/permitted.py",
        'return "".join(parts)',
        "return text",
    ),
    Taken(
        "generated logs and repro",
        _HOSTILE + "test_generated_logs_write_groups_and_nothing_else",
        "repro/permitted.py",
        "    if _NAME.fullmatch(name) is None:",
        "    if False:",
    ),
    Taken(
        "--trust-log",
        _HOSTILE + "test_files_of_a_log_run_only_if_the_user_trusts_it",
        "cli/repro.py",
        "    if not trust_log:",
        "    if False:",
    ),
    Taken(
        "captures of another folder",
        _HOSTILE + "test_files_of_a_capture_run_only_if_it_is_of_this_folder",
        "captures/trust.py",
        'if not (path / "log").is_symlink() and is_own(path, REQUEST):',
        "if True:",
    ),
    Taken(
        "sources of the project",
        _NAMED + "test_only_python_files_of_the_project_are_shown",
        "captures/trust.py",
        '        if real.suffix != ".py" or not inside:',
        '        if real.suffix != ".py":',
    ),
    Taken(
        "sources in a capture",
        _NAMED + "test_a_capture_keeps_files_of_its_project_only",
        "captures/trust.py",
        "    allowed = (project_root(cwd), *roots)",
        '    allowed = (Path("/"), *roots)',
    ),
    Taken(
        "comments in the project",
        _NAMED
        + "test_comments_that_ignore_are_looked_for_in_files_of_the_project_only",
        "diagnosis/diagnose.py",
        "        self._root = project_root(Path.cwd())",
        '        self._root = Path("/")',
    ),
    Taken(
        "time of lines",
        _LINES + "test_reading_takes_time_in_proportion",
        "parsers/lines/failures.py",
        "|(?:[A-Za-z_]\\w*\\.)*[A-Z]",
        "|(?:[A-Za-z_]\\w*\\.?)*[A-Z]",
    ),
    Taken(
        "time of colours",
        _LINES + "test_colours_of_code_take_time_in_proportion",
        "rendering/highlighting.py",
        "(?P<f>^[ \\t]*@",
        "(?P<f>^\\s*@",
    ),
    Taken(
        "cap of a line",
        _LINES + "test_a_line_has_a_cap_and_the_rest_is_counted",
        "parsers/lines/log_files.py",
        "        if held >= MOST_LINE:",
        "        if False:",
    ),
    Taken(
        "bounds of unpacking",
        _LINES + "test_what_unpacks_to_too_much_is_refused",
        "parsers/lines/log_files.py",
        "            if limit is not None and total > limit:",
        "            if False:",
    ),
    Taken(
        "status 70",
        "test_own_fault.py::test_it_ends_with_70_and_keeps_the_traceback",
        "errors.py",
        "OWN_FAULT = 70",
        "OWN_FAULT = 1",
    ),
    Taken(
        "captures of others",
        _FOREIGN + "test_kernels_runs_nothing_of_a_foreign_capture",
        "captures/trust.py",
        "    if not is_own(capture.path, REQUEST):",
        "    if False:",
    ),
    Taken(
        "signature",
        _FOREIGN + "test_only_a_capture_made_here_is_run_again",
        "captures/trust.py",
        "return hmac.new(key, read_within(file), hashlib.sha256).hexdigest()",
        "return hmac.new(key, b'', hashlib.sha256).hexdigest()",
    ),
    Taken(
        "codes of requests",
        _FOREIGN + "test_the_code_is_of_this_request_and_this_user",
        "captures/trust.py",
        'b"run again\\0" + content, hashlib',
        'b"run again\\0", hashlib',
    ),
    Taken(
        "variables from a list",
        _FOREIGN + "test_variables_come_from_a_list",
        "captures/trust.py",
        " and catalogue.is_kept(name)",
        "",
    ),
    Taken(
        "links in captures",
        _FOREIGN + "test_links_inside_are_refused",
        "captures/capture.py",
        "        _refuse_links(path)\n",
        "",
    ),
    Taken(
        "pipes in captures",
        _FOREIGN + "test_a_pipe_inside_is_refused_and_not_waited_on",
        "captures/capture.py",
        "        _refuse_links(path)\n",
        "",
    ),
    Taken(
        "names of captures",
        _FOREIGN + "test_the_name_of_a_capture_is_read_from_a_plain_file",
        "captures/store.py",
        "        if not stat.S_ISREG(file.lstat().st_mode):",
        "        if False:",
        (
            (
                "captures/store.py",
                "read_within(file, 200)",
                'file.open("rb").read(200)',
            ),
        ),
    ),
    Taken(
        "outputs of a project's file",
        _FOREIGN + "test_a_projects_file_names_outputs_of_the_project_only",
        "cli/config.py",
        "    if _dashed(key) in WRITTEN:",
        "    if False:",
    ),
    Taken(
        "names on a terminal",
        _SAID + "test_names_are_shown_as_text",
        "cli/__init__.py",
        "print(in_github_log(visible(masked(text))), file=sys.stderr)",
        "print(in_github_log(masked(text)), file=sys.stderr)",
    ),
    Taken(
        "captures on a terminal",
        _SAID + "test_captures_with_any_name_and_content",
        "cli/output.py",
        "    return in_github_log(visible(text))",
        "    return in_github_log(text)",
    ),
    Taken(
        "say and tell",
        _SAID + "test_commands_print_through_say_and_tell",
        "cli/explain.py",
        "\n@click.command",
        "\nprint()\n\n\n@click.command",
    ),
    Taken(
        "functions in Python files",
        _NAMED + "test_functions_are_looked_for_in_python_files_only",
        "expectations/source_lines.py",
        'if file.endswith(".py"):',
        "if file:",
    ),
    Taken(
        "files read within a bound",
        "test_whole_files.py::test_files_of_others_are_read_within_a_bound",
        "whole_files.py",
        "    if len(data) > most:",
        "    if False:",
    ),
    Taken(
        "pipes that nobody opens",
        "test_whole_files.py::test_a_pipe_that_nobody_opens_is_not_waited_on_for_ever",
        "whole_files.py",
        "    thread.join(MOST_WAIT)\n    if failed:",
        "    thread.join(8)\n    opened = opened or [path.open('rb', buffering=0)]\n    if failed:",
    ),
    Taken(
        "files without an end",
        "test_whole_files.py::test_files_without_an_end_are_refused",
        "whole_files.py",
        "        if status.st_size == 0 and _name_of(handle, path).startswith(_OF_THE_KERNEL):",
        "        if False:",
    ),
    Taken(
        "logs that a saved report names",
        _NAMED + "test_repro_reads_no_pipe_or_device_that_a_saved_report_names",
        "workflows/load.py",
        "    return stat.S_ISREG(status.st_mode) and status.st_size > 0",
        "    return True",
        (
            (
                "parsers/lines/log_files.py",
                "        return open_given(log.path)",
                '        return log.path.open("rb")',
            ),
        ),
    ),
    Taken(
        "limit of a saved report",
        _LINES + "test_a_saved_report_has_a_limit",
        "workflows/__init__.py",
        "        if size > MOST_REPORT_BYTES:",
        "        if False:",
    ),
    Taken(
        "commands of captures of others",
        "test_commands_to_copy.py::test_a_capture_of_another_does_not_choose_what_runs",
        "diagnosis/commands.py",
        "request is None or not context.own or",
        "request is None or",
    ),
    Taken(
        "edits of captures of others",
        "test_commands_to_copy.py::test_copies_of_a_capture_of_another_make_no_edits",
        "diagnosis/planned_changes.py",
        "if context.request is None or context.own:",
        "if True:",
    ),
    Taken(
        "commands of saved reports",
        "test_commands_to_copy.py::test_a_saved_report_of_another_offers_commands_that_read_only",
        "workflows/load.py",
        "            saved = without_commands_of_others(saved, first.text)\n",
        "",
    ),
    Taken(
        "commands of logs",
        "test_commands_to_copy.py::test_a_log_puts_no_command_into_a_plan",
        "diagnosis/commands.py",
        'shlex.join(["fusiondoc", "compare", f"./{name}" if name.startswith("-") else name, NEW_LOG])',
        '" ".join(["fusiondoc", "compare", name, NEW_LOG])',
    ),
    Taken(
        "commands on a page",
        "test_commands_to_copy.py::test_a_page_offers_no_other_command_or_variable",
        "views/report_record.py",
        "if _SET.fullmatch(name): known[name] = value",
        "known[name] = value",
    ),
    Taken(
        "a project's file trusts nobody",
        _FOREIGN + "test_a_projects_file_trusts_nobody_for_the_user",
        "cli/config.py",
        "    if _dashed(key) in GIVEN:",
        "    if False:",
    ),
    Taken(
        "a project's file leads nowhere else",
        _FOREIGN + "test_a_projects_file_leads_nowhere_else",
        "cli/config.py",
        '"trace-file", "captures-in", "source-root")',
        "*())",
    ),
    Taken(
        "backups of fix",
        "test_fix_edits.py::test_a_backup_is_no_way_out_of_the_project",
        "workflows/fix.py",
        '            file = beside.open("xb")',
        '            file = beside.open("wb" if not beside.exists() else "xb")',
    ),
    Taken(
        "all files of fix or none",
        "test_fix_edits.py::test_all_files_are_written_or_none",
        "workflows/fix.py",
        "            _put_back(changed, backup)\n",
        "            pass\n",
    ),
    Taken(
        "values of a JSON document",
        "test_hostile_json.py::test_documents_of_too_many_values_are_refused",
        "model/typed_fields.py",
        "    if len(data) > most and",
        "    if False and",
    ),
    Taken(
        "results that no run wrote",
        "test_hostile_json.py::test_a_bench_that_no_run_wrote_is_refused",
        "reports/json_format.py",
        "            if wrong:",
        "            if False:",
    ),
    Taken(
        "traces outside of a capture",
        "test_hostile_json.py::test_a_capture_that_names_a_trace_elsewhere_is_read_without_it",
        "captures/capture.py",
        "if name is not None and name in INNER:",
        "if name is not None:",
    ),
    Taken(
        "time of stacks",
        "test_hostile_json.py::test_stacks_and_modules_are_read_in_proportion",
        "parsers/profiler_trace.py",
        'matches = (_FRAME.match(part.strip()) for part in stack.split(";"))',
        'matches = (re.match(r"\\s*(.+?)\\((\\d+)\\): ", part) for part in stack[:60_000].split(";"))',
    ),
    Taken(
        "the interpreter is told",
        _SAID + "test_the_user_is_told_that_a_projects_file_names_the_interpreter",
        "cli/options.py",
        '    _report_python_of_project(options["python"])\n',
        "",
    ),
    Taken(
        "where the interpreter counts",
        _FOREIGN + "test_a_projects_interpreter_counts_only_where_its_model_runs",
        "cli/config.py",
        'if name in commands and name not in RUNNING and "python" in values:',
        "if False:",
    ),
    Taken(
        "aliases of YAML",
        _FOREIGN + "test_aliases_that_expand_are_refused_before_they_are_built",
        "expectations/yaml_text.py",
        "        if root is not None and _expanded(root) > _MOST_NODES:",
        "        if False:",
    ),
    Taken(
        "secrets in formats",
        "test_secrets.py::test_no_format_shows_one",
        "workflows/load.py",
        "    return replace(report, **{name: masked_in(",
        "    return report\n    return replace(report, **{name: masked_in(",
    ),
    Taken(
        "secrets in requests",
        "test_secrets.py::test_a_request_keeps_no_secret_and_says_what_it_lacks",
        "captures/request.py",
        "script_args=masked_arguments(self.options.script_args)",
        "script_args=self.options.script_args",
    ),
    Taken(
        "masked arguments are not run",
        "test_secrets.py::test_what_was_masked_is_not_run_again",
        "captures/trust.py",
        '    if "script_args" in request.masked:',
        "    if False:",
    ),
    Taken(
        "a child that prints without end",
        "test_long_logs.py::test_a_child_that_prints_without_end_does_not_fill_the_disk",
        "runner/capped_log.py",
        "            if self.written <= self._sizes.head:",
        "            if True:",
    ),
    Taken(
        "lines about fusion are kept",
        "test_long_logs.py::test_head_tail_and_fusion_are_kept_within_the_limit",
        "runner/capped_log.py",
        "                fusion = about(line)",
        "                fusion = False",
    ),
    Taken(
        "the log of capture()",
        "test_long_logs.py::test_a_process_that_writes_its_own_log_is_kept_within_the_limit",
        "runner/capped_log.py",
        "            if self._path.stat().st_size >= self._sizes.head:",
        "            if False:",
    ),
    Taken(
        "names in a bundle",
        "test_bundle.py::test_names_are_replaced_everywhere",
        "workflows/names_replaced.py",
        "        for rule in self.rules:",
        "        for rule in ():",
    ),
    Taken(
        "a bundle is not run",
        "test_bundle.py::test_a_bundle_is_never_run",
        "captures/trust.py",
        "    if capture.from_archive or capture.request.bundled:",
        "    if capture.request.bundled:",
    ),
    Taken(
        "links in a tar",
        "test_bundle.py::test_tars_that_are_refused",
        "workflows/archives.py",
        '            if kind not in (b"0", b"\\0", b"5"):',
        "            if False:",
    ),
    Taken(
        "other places in a zip",
        "test_bundle.py::test_zips_that_are_refused",
        "workflows/archives.py",
        'name.startswith(("/", "\\\\")) or "\\\\" in name or ":" in name or ".." in name.split("/")',
        "False",
    ),
    Taken(
        "bounds of an archive",
        "test_bundle.py::test_extended_headers_many_files_and_large_ones",
        "workflows/archives.py",
        "        for _ in range(MOST_MEMBERS):",
        "        for _ in range(9999):",
    ),
    Taken(
        "files of a zip",
        "test_bundle.py::test_a_zip_of_many_files_is_refused_before_they_are_listed",
        "workflows/archives.py",
        "    if number > MOST_MEMBERS or size > _MOST_DIRECTORY:",
        "    if False:",
    ),
    Taken(
        "processes end with the program",
        _LEFT + "test_workers_are_ended_after_any_end",
        "runner/supervisor.py",
        "                os.kill(pid, number)",
        "                os.kill(pid, 0)",
    ),
    Taken(
        "and when fusiondoc is killed",
        _LEFT + "test_everything_ends_when_fusiondoc_is_killed",
        "runner/supervisor.py",
        "        self._gone = self._gone or os.getppid() != self._order.fusiondoc\n",
        "        self._gone = False\n",
    ),
    Taken(
        "processes of others",
        _LEFT + "test_processes_of_the_user_are_not_touched",
        "runner/supervisor.py",
        "        waiting = [os.getpid()]",
        "        waiting = [self._order.fusiondoc]",
    ),
    Taken(
        "arguments of processes",
        _LEFT + "test_what_is_told_of_a_process_holds_no_argument",
        "runner/supervisor.py",
        '            if b"." in file:\n                return f"{name} {_plain(file)}"\n',
        '            return f"{name} {_plain(b"_".join(line))}"\n',
    ),
    Taken(
        "descriptors that a program closed",
        "test_closed_descriptors.py::test_records_go_on_after_every_descriptor_was_closed",
        "probe/log_and_records.py",
        "            if identity(self._file) != self._identity:",
        "            if False:",
    ),
    Taken(
        "--python ./py",
        "test_interpreter.py::test_a_path_of_this_folder_is_that_file",
        "runner/interpreter.py",
        "    name = str(text)",
        '    name = str(text).lstrip("./")',
    ),
    Taken(
        "a wrapper that hangs",
        "test_interpreter.py::test_a_wrapper_that_hangs_is_stopped_with_what_it_started",
        "runner/supervisor.py",
        "                os.kill(pid, number)",
        "                os.kill(pid, 0)",
        (
            (
                "runner/supervisor.py",
                "            os.killpg(self._pid, number)",
                "            os.killpg(self._pid, 0)",
            ),
            (
                "runner/child.py",
                "                os.killpg(self._pid, how)",
                "                os.killpg(self._pid, 0)",
            ),
        ),
    ),
    Taken(
        "an interpreter without end",
        "test_interpreter.py::test_what_is_no_python",
        "runner/interpreter.py",
        "    if ending.too_much:",
        "    if False:",
    ),
    Taken(
        "writes whole",
        "test_whole_files.py::test_a_write_that_fails_leaves_the_old_file",
        "whole_files.py",
        "        beside.unlink()\n        raise",
        "        beside.replace(real)\n        raise",
    ),
    Taken(
        "a signal at a write",
        "test_whole_files.py::test_a_signal_at_a_write_leaves_the_old_file_and_no_other",
        "cli/__init__.py",
        "                before[number] = signal.signal(number, stop)",
        "                before[number] = signal.signal(number, signal.SIG_IGN)",
    ),
    Taken(
        "captures that are written",
        "test_whole_files.py::test_one_that_is_being_written_or_kept_by_name_stays",
        "captures/store.py",
        " and (other == path or not being_written(other)):",
        ":",
    ),
    Taken(
        "what a repository configures is not run",
        "test_git_files.py::test_nothing_that_a_repository_configures_is_run",
        "workflows/git_files.py",
        '    "GIT_ALLOW_PROTOCOL": "",',
        '    "GIT_ALLOW_PROTOCOL": "file:ext:ssh",',
        (("workflows/git_files.py", '    "GIT_NO_LAZY_FETCH": "1",', ""),),
    ),
    Taken(
        "git is started in one place",
        "test_git_files.py::test_git_is_started_in_one_place",
        "workflows/git_files.py",
        '    *("git", "--no-pager"',
        '    *("/usr/bin/git", "--no-pager"',
    ),
    Taken(
        "modules of the checkout and the action",
        "test_ci_pieces.py::test_a_file_of_the_checkout_shadows_no_library_of_the_action",
        "../action.yml",
        'fusiondoc check "$@"',
        'python -m fusiondoc check "$@"',
    ),
    Taken(
        "actions by their commits",
        "test_ci_pieces.py::test_actions_are_pinned_by_commit",
        "../.github/workflows/release.yml",
        "pypa/gh-action-pypi-publish@ed0c53931b1dc9bd32cbe73a98c7f6766f8a527e # v1.13.0",
        "pypa/gh-action-pypi-publish@release/v1",
    ),
    Taken(
        "a secret at a cut",
        "test_bundle.py::test_no_cut_of_a_long_line_goes_through_a_secret",
        "workflows/bundle.py",
        "        if _nothing_across(data, position, names):",
        "        if True:",
    ),
    Taken(
        "forms of secrets",
        "test_secrets.py::test_forms_of_secrets_are_masked",
        "masking/masked_texts.py",
        "        made, number = _mask_plain(plain)",
        "        made, number = _mask_plain(text)",
    ),
)


def rows() -> set[str]:
    """The tests that SECURITY.md names."""
    return set(
        re.findall(
            r"`(test_\w+\.py::\w+)`",
            (ROOT / "SECURITY.md").read_text(encoding="utf-8"),
        )
    )


def tried(taken: Taken, copy: Path) -> str:
    """ "fails" if the test fails without the protection; else what happened."""
    texts: dict[Path, str] = {}
    name, _, function = taken.test.partition("::")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        function,
        f"tests/{name}",
    ]
    try:
        for place, old, new in ((taken.file, taken.old, taken.new), *taken.also):
            file = copy / "fusiondoc" / place
            text = file.read_text(encoding="utf-8")
            texts.setdefault(file, text)
            try:
                file.write_text(replaced_once(text, old, new), encoding="utf-8")
            except ValueError as error:
                return f"{old!r} {error} in {place}"
        done = subprocess.run(
            command,
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "fails"  # it waits for ever, or for very long
    finally:
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
    return {0: "PASSES", 1: "fails"}.get(
        done.returncode, f"status {done.returncode}: {done.stdout[-300:]}"
    )


def main() -> int:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = sorted(rows() - {one.test for one in TAKEN})
    for test in wrong:
        print(f"nothing is taken away for {test}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "fusiondoc")
        shutil.copytree(
            ROOT,
            copy,
            ignore=shutil.ignore_patterns(".git", ".mypy_cache", "__pycache__"),
        )
        for taken in TAKEN:
            if part not in f"{taken.what} {taken.test}":
                continue
            told = tried(taken, copy)
            print(f"{told}: {taken.what}, {taken.test}", flush=True)
            if told != "fails":
                wrong.append(taken.test)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
