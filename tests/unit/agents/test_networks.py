"""Descriptions of networks, from which they are built."""

import pytest

from agents.networks import Blueprint
from agents.networks.option_attention import OptionAttention
from envs.options import OptionSpec
from envs.types import CheckpointError, MurmurationError


def test_a_blueprint_builds_what_it_names_and_survives_json():
    blueprint = Blueprint("agents.networks.option_attention.OptionAttention", {"width": 8, "rounds": 2, "heads": 2})
    built = Blueprint.from_dict(blueprint.to_dict()).build(OptionSpec())
    assert isinstance(built, OptionAttention)
    assert len(built.messages) == 2
    assert Blueprint.from_dict(blueprint.to_dict()) == blueprint


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("agents.networks.Nobody", {}, "'agents.networks.Nobody' cannot be imported"),
        ("no_such_module.Net", {}, "cannot be imported"),
        ("Net", {}, "give module.Class"),
        ("agents.networks.option_attention.OptionAttention", {"widht": 8}, "unexpected keyword argument 'widht'"),
        ("agents.networks.option_attention.OptionAttention", {"width": 31}, "width a multiple of heads"),
        ("agents.networks.option_attention.OptionAttention", {"mixing": "all"}, "mixing is 'all'"),
        ("builtins.print", {}, "not a torch.nn.Module"),
        ("subprocess.Popen", {"shell": True}, "not a torch.nn.Module"),
    ],
)
def test_a_blueprint_refuses_in_one_line(target, options, said):
    with pytest.raises(MurmurationError) as error:
        Blueprint(target, options).build(OptionSpec())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_description_without_a_target_is_refused():
    with pytest.raises(CheckpointError, match="lacks target or options"):
        Blueprint.from_dict({"options": {}})
