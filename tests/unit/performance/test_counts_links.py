"""Which performance models count transfers between nodes themselves, and what Rubick's model states of its figures."""

from envs.performance import RubickModel, counts_links, default_model, throughput_sources
from envs.performance.rubick.measured import MeasuredModel


def test_rubicks_figures_count_links_and_the_tables_do_not():
    assert counts_links(RubickModel())
    assert counts_links(MeasuredModel([]))
    assert not counts_links(default_model())


def test_rubicks_model_states_its_provenance():
    sources = throughput_sources(RubickModel(), ["vit", "t5"], ["A800", "V100"])
    assert sources == {"fitted": ["vit on A800", "t5 on A800"], "infeasible": ["vit on V100", "t5 on V100"]}
