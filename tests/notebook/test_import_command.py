"""`%ensemble import crewai FOLDER` in a real IPython shell (C32)."""

import pytest

from ensemble_notebook import ValidationError

AGENTS = """\
researcher:
  role: >
    {topic} Senior Data Researcher
  goal: >
    Uncover cutting-edge developments in {topic}
  backstory: >
    You're a seasoned researcher with a knack for uncovering the latest
    developments in {topic}.

reporting_analyst:
  role: >
    {topic} Reporting Analyst
  goal: >
    Create detailed reports based on {topic} data analysis and research findings
  backstory: >
    You're a meticulous analyst with a keen eye for detail.
"""
TASKS = """\
research_task:
  description: >
    Conduct a thorough research about {topic}
    Make sure you find any interesting and relevant information given
    the current year is {current_year}.
  expected_output: >
    A list with 10 bullet points of the most relevant information about {topic}
  agent: researcher

reporting_task:
  description: >
    Review the context you got and expand each topic into a full section for a report.
  expected_output: >
    A fully fledged report with the main topics. Formatted as markdown without '```'
  agent: reporting_analyst
  output_file: report.md
"""
CREW = """\
raise RuntimeError("this is never run")


class Crew0:
    def researcher(self):
        return Agent(config=self.agents_config['researcher'], tools=[SerperDevTool()], verbose=True)

    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential, verbose=True)
"""


@pytest.fixture
def project(tmp_path):
    """A project as crewAI's template makes one."""
    config = tmp_path / "src" / "latest" / "config"
    config.mkdir(parents=True)
    (config / "agents.yaml").write_text(AGENTS)
    (config / "tasks.yaml").write_text(TASKS)
    (config.parent / "crew.py").write_text(CREW)
    return tmp_path


def test_the_template_becomes_a_cell_that_can_run(shell, project, capsys):
    assert shell.run(f"text = %ensemble import crewai {project}").success
    text = shell.names["text"]
    assert text.startswith("%%ensemble\n# needs -i topic=... -i current_year=...\nagents:\n  researcher:\n")
    assert "# tools: [SerperDevTool()]" in text
    assert "'output_file' of 'reporting_task' is left out. The text of a task is" in capsys.readouterr().out
    first, _, body = text.partition("\n")
    assert shell.run(f"{first} --define -o team\n{body}").success
    team = shell.names["team"]
    assert [agent.role for agent in team.agents] == ["{topic} Senior Data Researcher", "{topic} Reporting Analyst"]
    assert [task.name for task in team.tasks] == ["research_task", "reporting_task"]
    assert [each.name for each in team.tasks[1].context] == ["research_task"]
    assert team.agents[0].background.startswith("You're a seasoned researcher")


def test_a_hierarchical_process_is_the_workflow(shell, project):
    (project / "src" / "latest" / "crew.py").write_text(CREW.replace("sequential", "hierarchical"))
    assert shell.run(f"text = %ensemble import crewai {project}").success
    assert "workflow: hierarchical\n" in shell.names["text"]


@pytest.mark.parametrize("words, told", [("crew x", "takes `crewai`"), ("crewai gone", "has no agents.yaml and tasks")])
def test_what_is_no_project_is_refused(shell, words, told):
    error = shell.error(f"%ensemble import {words}")
    assert isinstance(error, ValidationError)
    assert told in str(error)


def test_a_mistake_in_a_file_has_its_name_and_line(shell, project):
    (project / "src" / "latest" / "config" / "tasks.yaml").write_text("a:\n  description: b: c\n")
    assert "tasks.yaml, line 2" in str(shell.error(f"%ensemble import crewai {project}"))


WHOLE_CREW = """\
from crewai import LLM, Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, before_kickoff, crew, task

raise RuntimeError("this is never run")


@CrewBase
class Latest():
    agents: list[BaseAgent]
    tasks: list[Task]

    @before_kickoff
    def prepare(self, inputs):
        return inputs

    @agent
    def researcher(self) -> Agent:
        return Agent(
            config=self.agents_config['researcher'],  # type: ignore[index]
            tools=[SerperDevTool()], max_iter=3, llm=LLM(model="openai/gpt-4o"), verbose=True
        )

    @agent
    def analyst(self) -> Agent:
        return Agent(config=self.agents_config['reporting_analyst'], allow_delegation=False)

    def manager(self) -> Agent:
        return Agent(role="Boss", goal="Lead", backstory="Strict")

    @task
    def reporting_task(self) -> Task:
        return Task(
            config=self.tasks_config['reporting_task'], context=[self.research_task()], agent=self.analyst(),
            output_file='report.md', output_pydantic=Report
        )

    @task
    def research_task(self) -> Task:
        return Task(config=self.tasks_config['research_task'], human_input=True)

    @crew
    def crew(self) -> Crew:
        return Crew(
            agents=self.agents, tasks=[self.research_task(), self.reporting_task()], process=Process.sequential,
            verbose=True, memory=True, planning=True, embedder={"provider": "x"}, max_rpm=10, cache=False
        )
"""


def import_crew(shell, project, code):
    (project / "src" / "latest" / "crew.py").write_text(code)
    assert shell.run(f"text = %ensemble import crewai {project}").success
    return shell.names["text"]


def test_what_the_code_says_is_in_the_cell_and_what_has_no_counterpart_is_named(shell, project, capsys):
    text = import_crew(shell, project, WHOLE_CREW)
    for line in (
        "llm: openai:gpt-4o",
        "max_iterations: 3",
        "# tools: [SerperDevTool()]",
        "allow_delegation: false",
        "review: after",
        "context: [research_task]",
        "agent: reporting_analyst",
        "# output_type: Report  (define it in a cell above)",
        "memory: crew",
        "rate_limit: 10/min",
    ):
        assert f"    {line}" in text or f"\n{line}" in text
    assert text.index("name: research_task") < text.index("name: reporting_task")
    assert text.rstrip().endswith("verbose: true\nrate_limit: 10/min")
    told = capsys.readouterr().out
    for words in (
        "crew.py: prepare (@before_kickoff) is left out",
        "crew.py: 'output_file' of 'reporting_task' is left out",
        "crew.py: 'planning' of the crew is left out",
        "crew.py: 'embedder' of the crew is left out",
        "'memory' of the crew is `memory: crew` on each task",
    ):
        assert words in told
    first, _, body = text.partition("\n")
    assert shell.run(f"{first} --define -o team\n{body}").success
    assert list(shell.names["team"].tasks[1].context) == ["research_task"]


@pytest.mark.parametrize(
    "manager, line, note",
    [
        (
            "manager_agent=self.manager()",
            "workflow: hierarchical",
            "'manager_agent' of the crew is left out. The manager",
        ),
        ('manager_llm="openai/gpt-4o"', "manager_llm: openai:gpt-4o", ""),
    ],
)
def test_a_manager_is_its_model_and_no_worker(shell, project, capsys, manager, line, note):
    code = WHOLE_CREW.replace("Process.sequential", f"Process.hierarchical, {manager}")
    text = import_crew(shell, project, code)
    assert line in text
    assert ("Boss" in text) is not manager.startswith("manager_agent")
    assert note in capsys.readouterr().out


def test_tasks_that_the_crew_does_not_have_are_left_out_by_name(shell, project, capsys):
    text = import_crew(shell, project, WHOLE_CREW.replace(", self.reporting_task()]", "]"))
    assert "reporting_task" not in text
    assert "tasks.yaml: 'reporting_task' is left out" in capsys.readouterr().out
    text = import_crew(shell, project, WHOLE_CREW.replace("[self.research_task(), self.reporting_task()]", "pick()"))
    assert "reporting_task" in text
    assert "which tasks the crew has (pick()) can't be told" in capsys.readouterr().out


@pytest.mark.parametrize(
    "given, line",
    [
        ('"gpt-4o"', "llm: openai:gpt-4o"),
        ('"o3-mini"', "llm: openai:o3-mini"),
        ('LLM(model="gpt-4o", temperature=0.2)', "llm: {model: openai:gpt-4o, temperature: 0.2}"),
        ('LLM(model="openai/q", base_url="http://h/v1")', "llm: {model: q, base_url: http://h/v1}"),
        ('"anthropic/claude"', "llm: anthropic:claude"),
        ('"nobody/claude"', "# llm: nobody/claude  (name a model of this notebook)"),
        (f'LLM(model="gpt-4o", api_key="sk-proj-{"a1" * 20}")', "# llm: {'model': 'gpt-4o', 'api_key': '***'}"),
    ],
)
def test_models_are_named_as_a_cell_names_them(shell, project, capsys, given, line):
    text = import_crew(shell, project, WHOLE_CREW.replace('LLM(model="openai/gpt-4o")', given))
    assert f"    {line}" in text
    assert ("names no model here" in capsys.readouterr().out) is line.startswith("#")
    assert "sk-proj" not in text
