"""The texts of --help: all flags of a command, or its most needed flags and the names of its groups."""

from collections.abc import Iterable, Iterator, Sequence

from absl import flags

from keras_bert_app.cli.common.flag_groups import GroupedFlags
from keras_bert_app.errors import UserError

_HELP, _FULL = ("help", "h", "helpshort"), "helpfull"


def is_wanted(arguments: Sequence[str]) -> bool:
    """Returns whether one of the arguments asks for help.

    Args:
        arguments: sequence of str. The arguments of the command.
    """
    return any(_asked(argument) for argument in arguments)


def page(arguments: Sequence[str], description: str, grouped: GroupedFlags | None) -> str:
    """Makes the help text that the first of these arguments requests.

    Args:
        arguments: sequence of str. The arguments of the command; is_wanted must be true for them.
        description: str. The text above the flags.
        grouped: GroupedFlags. The groups of the command's flags; None if the command has no groups.

    Returns:
        str: the help text.

    Raises:
        UserError: --help=GROUP names a group that the command does not have.
    """
    flag, group = next(asked for argument in arguments if (asked := _asked(argument)))
    description = description.strip()
    if grouped is None:
        if group:
            raise UserError(f"--help={group}: the flags of this command have no groups; --help lists all flags")
        return f"{description}\n{flags.FLAGS.main_module_help()}"
    if group:
        return _group_page(group, grouped)
    return _all_groups(description, grouped) if flag == _FULL else _most_needed(description, grouped)


def _asked(argument):
    """Returns (name of the flag, value) if an argument asks for help, else None."""
    name, _, value = argument.lstrip("-").partition("=")
    is_flag = argument.startswith("-") and (name in _HELP or argument.lstrip("-") == _FULL)
    return (name, value) if is_flag else None


def _most_needed(description, grouped):
    width = max(len(group.name) for group in grouped.groups)
    count = sum(len(group.flags) for group in grouped.groups)
    return "\n".join(
        [
            f"{description}\n",
            "The flags that most people need:\n",
            *_texts(grouped.most_needed),
            f"\nAll {count} flags, by group. --help=GROUP lists one group, --helpfull lists all:\n",
            *(f"  {group.name:{width}}  {len(group.flags):2}  {group.summary}" for group in grouped.groups),
        ]
    )


def _group_page(name, grouped):
    by_name = {group.name: group for group in grouped.groups}
    group = by_name.get(name.replace("-", "_").replace(" ", "_"))
    if group is None:
        raise UserError(f"--help={name}: there is no such group of flags; give one of {', '.join(by_name)}")
    return "\n".join(_with_flags(group))


def _all_groups(description, grouped):
    return "\n\n".join([description, *("\n".join(_with_flags(group)) for group in grouped.groups)])


def _with_flags(group):
    return [f"{group.name}: {group.summary}\n", *_texts(group.flags)]


def _texts(names: Iterable[str]) -> Iterator[str]:
    """Yields the text for each flag: its name, its help, its default and the kind of its values."""
    for name in names:
        flag = flags.FLAGS[name]
        shown = f"--[no]{name}" if flag.boolean else f"--{name}"
        takes = f" ({flag.parser.syntactic_help})" if flag.parser.syntactic_help and not flag.boolean else ""
        default = f" Default: {flag.default}." if flag.default and not flag.boolean else ""
        yield flags.text_wrap(f"{shown}: {flag.help}{default}{takes}", indent="    ", firstline_indent="  ")
