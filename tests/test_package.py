"""The package as others get it: its dependencies, the size of its modules, what wheel and sdist carry."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import zipfile
from pathlib import Path

import grimp
import pytest

import ensemble_notebook

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ensemble_notebook"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIST = f"ensemble_notebook-{PROJECT['version']}"
CARRIED = (
    "ensemble_notebook/__init__.pyi",
    "ensemble_notebook/ensemble-cell.schema.json",
    "ensemble_notebook/py.typed",
    "ensemble_notebook/jupyter-config/ipython_config.lazy_magics.json",
    "ensemble_notebook/demos/report.said.jsonl",
    "ensemble_notebook/demos/report.trace.json.gz",
    "ensemble_notebook/demos/report.yaml",
    "ensemble_notebook/notebooks/00-demo.ipynb",
    "ensemble_notebook/notebooks/01-first-team.ipynb",
    "ensemble_notebook/notebooks/course/brief.py",
    "ensemble_notebook/static/details.js",
    "ensemble_notebook/static/explorer.js",
    "ensemble_notebook/static/views.js",
    "ensemble_notebook/static/board.js",
    "ensemble_notebook/static/timeline.css",
)

# What `from ensemble_notebook import ...` gives. A name that goes or comes is a line in the changelog.
PUBLIC_NAMES = """
AbsentObjectError Agent AgentExecutionError AgentTool Agreement Attachment AttachmentAdded Budget
BudgetExceededError BudgetWarning CaptureMode
ChatMessage CheckFailed CircularDependencyError ClassRuns Comparison Condition ConstraintViolationError
CostConfiguration CostEstimate DeadlineExceededError DelegationCompleted DelegationContext DelegationFailed
DelegationPolicy DelegationPolicyResult
DelegationPriority DelegationRequest DelegationResponse DelegationStarted DelegationStatus DelegationTrace Ensemble
EnsembleError EnsembleOutput EntityMemory ErrorStrategy Event ExecutionPlan ExecutionTrace ExitReason Fail Failure
FallbackFailedError ForkPlan Gate GuardrailEnded GuardrailResult GuardrailStarted GuardrailViolationError
HierarchicalConstraints Improvement
InMemoryStore ItemsFailedError ItemsListed JsonTraceExporter LlmAttemptEnded LlmAttemptStarted
LlmCallCompleted LlmCallFailed LlmCallRetried LlmCallStarted LlmInteraction LlmToken LoadedRuns ManagedTask
ManagerPrompt MapResult MaxIterationsExceededError McpPrompt McpResource McpToolbox MemoryEnded MemoryEntry
MemoryStarted MemoryStore Metrics MissingPackageError ModelRefusedError NestedRunEnded NestedRunStarted Noted
OnExhausted OnTimeout OtelExporter OutputParsingError ParallelExecutionError Partial PendingCall Phase
PhaseEnded PhaseExecutionError
PhaseRetried PhaseReview PhaseSkipped PhaseStarted PhaseStatus PhaseTrace PlanMade Prediction ProgressReported
PromptTemplateError PromptTexts RateLimit RateLimitTimeoutError RateLimitWaited ReplayError Reply Rerun RerunHandle
Review ReviewAnswered ReviewDecision
ReviewPolicy ReviewRejectedError ReviewRequest ReviewRequested ReviewTimeoutError ReviewTiming ReviewedCall RowResult
RunContext RunDiff RunEnded RunHandle RunInterrupted RunKind RunStarted RunStatus RunStream Saving Score ScoreEnded
ScoreStarted ScoringError ScriptedChatModel Skipped SpanStatus Spending SqliteMemory StoreError Task TaskCompleted
TaskExecutionError TaskFailed TaskFellBack TaskInput TaskInputPrepared TaskNotReused TaskOutput TaskRetried TaskReused
TaskSkipped TaskStarted TaskTrace TokenUsage Tool ToolCallCompleted ToolCallStarted ToolCallTrace ToolExecutionError
ToolOutcome ToolResult ToolUse TraceFormatError Transcript TurnEnded TurnStarted ValidationError VectorStoreMemory
WaitEnded WaitStarted Warned Watch Workflow __version__ auto_review check config console_review human_input
leave_pending load_class load_traces mcp_tools scorers store watch
"""

MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*MODULES, *sorted((ROOT / "js" / "src").rglob("*.ts*"))]

LOADED_AT_FIRST_USE = {
    *("anywidget", "genai_prices", "ipywidgets", "jiter", "langchain_core", "langchain_openai", "numpy"),
    *("openai", "pandas", "pydantic", "pydantic_core", "ruamel", "xllamacpp", "altair", "vl_convert"),
}


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this Python's environment, changed as told; both streams come back as one text."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def build(kind: str, source: Path, target: Path, **environment: str) -> Path:
    """Build one `kind` of distribution from a folder, without fetching anything."""
    target.mkdir()
    built = run(sys.executable, "-m", "build", "-n", f"--{kind}", "-o", target, source, cwd=source, **environment)
    assert built.returncode == 0, built.stdout
    (path,) = target.iterdir()
    return path


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of this checkout, with a bundle that is out of date and one that an earlier version left."""
    copy = tmp_path_factory.mktemp("checkout") / "ensemble-notebook"
    generated = shutil.ignore_patterns(".*", "node_modules", "__pycache__", "build", "dist", "artefacts", "static")
    shutil.copytree(ROOT, copy, ignore=generated)
    shutil.copy(ROOT / ".gitignore", copy)
    (copy / "js" / "node_modules").symlink_to(ROOT / "js" / "node_modules", target_is_directory=True)
    (copy / "ensemble_notebook" / "static").mkdir()
    (copy / "ensemble_notebook" / "static" / "timeline.js").write_text("stale")
    (copy / "ensemble_notebook" / "static" / "forgotten.js").touch()
    return copy


@pytest.fixture(scope="module")
def sdist(checkout, tmp_path_factory) -> Path:
    """The source distribution of the checkout, unpacked."""
    target = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", checkout, target / "dist")) as archive:
        archive.extractall(target, filter="data")
    return target / DIST


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """The wheel, built from the sdist on a machine without Node."""
    return build("wheel", sdist, tmp_path_factory.mktemp("wheel") / "dist", PATH=os.devnull)


def normal(name: str) -> str:
    """A distribution's name, however it is spelt."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", name, maxsplit=1)[0]).lower()


def imported_packages(module: Path) -> set[str]:
    """The top-level packages that a module imports anywhere, lazily too."""
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_public_names_are_these_and_no_others():
    assert sorted(ensemble_notebook.__all__) == sorted(PUBLIC_NAMES.split())
    assert all(hasattr(ensemble_notebook, name) for name in PUBLIC_NAMES.split())


def test_every_foreign_import_is_a_declared_dependency_and_no_dependency_is_idle():
    providers = importlib.metadata.packages_distributions()
    foreign = set().union(*map(imported_packages, MODULES)) - sys.stdlib_module_names - {PACKAGE.name}
    needed = {normal(name) for package in foreign for name in providers[package]}
    required = {normal(each) for each in PROJECT["dependencies"]}
    optional = {normal(each) for extra in PROJECT["optional-dependencies"].values() for each in extra}
    # Distributions of one namespace share its name: one of them has to be declared, and brings the others.
    assert all({normal(name) for name in providers[package]} & (required | optional) for package in foreign)
    # anywidget brings ipywidgets, but would be content with one that is years too old.
    assert required - needed == {"ipywidgets"}


def test_declaring_an_ensemble_loads_nothing_heavy():
    script = """
        import sys
        from ensemble_notebook import Agent, Ensemble, Phase, Task
        Ensemble(phases=[Phase.of("all", Task.of("Do it", agent=Agent(role="Doer", goal="Done")))], llm="local")
        print(*sys.modules)
    """
    loaded = run(sys.executable, "-c", textwrap.dedent(script), cwd=ROOT)
    assert loaded.returncode == 0, loaded.stdout
    assert LOADED_AT_FIRST_USE & set(loaded.stdout.split()) == set()


def test_t126_reading_traces_imports_nothing_that_has_to_be_compiled():
    compiled = {"pandas", "numpy", "pydantic_core", "msgspec", "pyarrow", "psutil", "jsonschema_rs", "xllamacpp"}
    script = "import sys; from ensemble_notebook import load_traces; print(*sys.modules)"
    loaded = run(sys.executable, "-c", script, cwd=ROOT)
    assert loaded.returncode == 0, loaded.stdout
    assert "ensemble_notebook.trace.loading" in loaded.stdout
    assert compiled & set(loaded.stdout.split()) == set()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_longer_than_800_lines(source):
    assert len(source.read_text().splitlines()) <= 800, "Does it hold one idea? Then say so in a note of the module."


def test_version_is_that_of_the_project():
    assert ensemble_notebook.__version__ == PROJECT["version"]
    assert json.loads((ROOT / "js" / "lab" / "package.json").read_text())["version"] == PROJECT["version"]


def test_sdist_carries_a_fresh_bundle_and_no_other(sdist):
    static = sdist / "ensemble_notebook" / "static"
    assert (static / "timeline.js").read_text() != "stale"
    assert not (static / "forgotten.js").exists()


def test_wheel_carries_the_package_and_the_renderer_of_saved_timelines(wheel, sdist):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        bundle = archive.read("ensemble_notebook/static/timeline.js").decode()
    assert bundle == (sdist / "ensemble_notebook" / "static" / "timeline.js").read_text()
    assert names.issuperset(CARRIED)
    assert names.issuperset(str(module.relative_to(ROOT)) for module in MODULES)
    # Outside the package there is the renderer of saved timelines, and above all no configuration: in `etc/ipython` a
    # template would be everybody's.
    outside = {name for name in names if not name.startswith(("ensemble_notebook/", f"{DIST}.dist-info/"))}
    assert outside
    assert all(name.startswith(f"{DIST}.data/data/share/jupyter/labextensions/ensemble-notebook/") for name in outside)


def test_checkout_without_node_says_what_is_needed(checkout, tmp_path):
    built = run(sys.executable, "-m", "build", "-n", "--wheel", "-o", tmp_path, checkout, cwd=checkout, PATH=os.devnull)
    assert built.returncode != 0
    assert "Node.js >= 20 with npm is needed to build the timeline from a checkout:" in built.stdout
    assert "Traceback" not in built.stdout


def test_installed_wheel_has_the_command_and_its_templates(wheel, tmp_path):
    target, ipython = tmp_path / "site", tmp_path / "ipython"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target]
    installed = run(*pip, wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stdout
    command = [sys.executable, target / "bin" / "jupyter-ensemble", "enable", "--user"]
    enabled = run(*command, cwd=tmp_path, PYTHONPATH=str(target), IPYTHONDIR=str(ipython))
    assert enabled.returncode == 0, enabled.stdout
    config = json.loads((ipython / "profile_default" / "ipython_config.json").read_text())
    assert config == {"MagicsManager": {"lazy_magics": {"ensemble": "ensemble_notebook"}}}


def test_no_modules_import_each_other_in_a_circle():
    """Not even inside functions or for types alone; the package itself names everything, and is left out."""
    graph = grimp.build_graph("ensemble_notebook", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) - {PACKAGE.name} for name in graph.modules}
    # Takes away what imports nothing that is left, again and again; what then remains imports in circles.
    while free := {name for name, imported in imports.items() if not imported & imports.keys()}:
        imports = {name: imported for name, imported in imports.items() if name not in free}
    assert sorted(imports) == []


def test_no_line_installs_the_package_from_a_registry_which_does_not_have_it() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/*"), *PACKAGE.rglob("*.py")]
    told = re.compile(r"pip install [^\n]*ensemble-notebook|ensemble-notebook\[")
    assert [path.name for path in texts if path.is_file() and told.search(path.read_text(encoding="utf-8"))] == []
