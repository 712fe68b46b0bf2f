"""The methods of the clients' experiments are made from verbs when they are imported; here they are shown."""

import re
from typing import Any

import griffe

_MADE = re.compile(r"_(?:blocking|awaiting)\(ExperimentVerbs\.(\w+)\)")


class Verbs(griffe.Extension):
    """Puts a method in the place of every attribute that is made from a verb."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look through the two experiments of the package, if it has them."""
        if "client" in pkg.members:
            verbs = pkg["client.verbs.ExperimentVerbs"]
            for experiment in (pkg["client.sync.Experiment"], pkg["client.async_.AsyncExperiment"]):
                for name, member in list(experiment.members.items()):
                    made = _MADE.fullmatch(str(getattr(member, "value", "")))
                    if made:
                        experiment.set_member(
                            name, _method(verbs[made[1]], awaited="Async" in experiment.name)
                        )


def _method(verb: griffe.Function, awaited: bool) -> griffe.Function:
    """Return a verb as a method that returns what the talk comes to."""
    talk = verb.returns
    assert isinstance(talk, griffe.ExprSubscript)  # Talk[…]
    method = griffe.Function(
        verb.name,
        parameters=verb.parameters,
        returns=talk.slice,
        docstring=verb.docstring,
        lineno=verb.lineno,
    )
    if awaited:
        method.labels.add("async")
    return method
