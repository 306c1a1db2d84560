"""Which schedulers a config names: those chosen from the library, and the user's own."""

from omegaconf import DictConfig

from launch.names import ChoiceError

GROUPS = ("agent", "cluster", "env", "performance", "scenario", "schedulers", "trainer", "workload")


def scheduler_nodes(cfg: DictConfig) -> dict[str, DictConfig]:
    """Configs of schedulers by name; the user's own are every further top-level key with a `_target_`.

    Raises:
        ChoiceError: a name of the user's own stands under `schedulers` too, where it would be passed over.
    """
    others = {str(name): node for name, node in cfg.items() if name not in GROUPS and isinstance(node, DictConfig)}
    own = {name: node for name, node in others.items() if "_target_" in node}
    chosen = {str(name): node for name, node in cfg.schedulers.items()}
    for name in own:
        if "_target_" in chosen.get(name, ()):
            raise ChoiceError(f"{name}: is a scheduler of the library and one of your own; give yours another name")
        if name in chosen:
            options = ", ".join(f"{name}.{option}" for option in chosen[name])
            raise ChoiceError(
                f"schedulers.{name}: {name} is a scheduler of your own, whose options are not under schedulers; "
                f"write {options}=<value>"
            )
    return {**chosen, **own}
