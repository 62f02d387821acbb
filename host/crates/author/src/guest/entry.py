"""Entry of the component, written by `rind plugin build`: stands between the host and the classes of the plugin.

It passes on what a class returns once that fits the contract, refuses what a function of the host does not take, which would end the
component, tells of an exception with its type, message and place, sends what the plugin prints to the host's log, and seeds `random`
at every call.
"""

import importlib
import json
import sys

from componentize_py_types import Err
from wit_world.imports import outcomes as _outcomes, types as _types

MODULE = "{{module}}"
RESULTS = json.loads({{results}})
SHAPES = json.loads({{shapes}})
# Parameters of functions of the host, by module, and of methods of the handles that it lends.
IMPORTS = json.loads({{imports}})
METHODS = json.loads({{methods}})
# Whether the component imports the log: where the plugin prints.
HAS_LOG = {{has_log}}

MAX_FRAMES = 5
MAX_CAUSES = 3
ERRORS = ("Error_InvalidInput", "Error_NotFound", "Error_Denied", "Error_Limit", "Error_Failed")
RANGES = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}

if HAS_LOG:
    from wit_world.imports import log as _log

    class _PrintedLines:
        """Text stream whose lines go to the log. While the component is built there is no host, and they go to the builder."""

        encoding = "utf-8"
        errors = "replace"
        closed = False
        is_live = False

        def __init__(self, level, builder):
            self.level = level
            self.builder = builder
            self.rest = ""

        def write(self, text):
            if not _PrintedLines.is_live:
                return self.builder.write(text)
            *lines, self.rest = (self.rest + text).split("\n")
            for line in lines:
                _log.write(self.level, line.encode("utf-8", "replace").decode("utf-8"))
            return len(text)

        def writelines(self, lines):
            for line in lines:
                self.write(line)

        def flush(self):
            pass

        def end_call(self):
            if self.rest:
                self.write("\n")

        def isatty(self):
            return False

        def writable(self):
            return True

        def readable(self):
            return False

        def seekable(self):
            return False

    sys.stdout = _PrintedLines(_types.Level.INFO, sys.stdout)
    sys.stderr = _PrintedLines(_types.Level.WARN, sys.stderr)
else:
    # The host keeps what is written there, for the message of a crash.
    sys.stdout = sys.stderr


def _named(value):
    """The name of a value's type, and the value where it is short."""
    text = repr(value)
    kind = type(value).__name__
    return kind if len(text) > 60 or text.startswith("<") else f"{kind} {text}"


def _distance(one, other):
    """Letters in which two names differ."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one.lower()):
        before, row[0] = row[0], at + 1
        for to, wanted in enumerate(other.lower()):
            before, row[to + 1] = row[to + 1], min(row[to + 1] + 1, row[to] + 1, before + (letter != wanted))
    return row[-1]


def _nearest(name, known):
    """The known name that a misspelt one nearly is."""
    near = min(known, key=lambda other: _distance(name, other), default=None)
    return near if near is not None and _distance(name, near) <= max(1, len(name) // 4) else None


def _text_fault(value):
    if not isinstance(value, str):
        return f"{_named(value)} is not a text"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "the text holds half of a character, which is no UTF-8"
    return None


def _number_fault(ty, value):
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{_named(value)} is no whole number"
    if not 0 <= value < 1 << RANGES[ty]:
        return f"{value} does not fit: it is 0 to {(1 << RANGES[ty]) - 1}"
    return None


def _plain_fault(ty, value):
    if ty == "string":
        return _text_fault(value)
    if ty == "bool":
        return None if isinstance(value, bool) else f"{_named(value)} is neither True nor False"
    if ty in RANGES:
        return _number_fault(ty, value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if is_number else f"{_named(value)} is no number"


def _fault(place, ty, value):
    """What does not fit the type, with its place; None when all fits."""
    if isinstance(ty, dict):
        if "option" in ty:
            return None if value is None else _fault(place, ty["option"], value)
        if ty["list"] == "u8":
            return None if isinstance(value, bytes) else f"{place}: {_named(value)} is not of type bytes"
        if not isinstance(value, list):
            return f"{place}: {_named(value)} is not a list"
        faults = (_fault(f"{place}[{at}]", ty["list"], item) for at, item in enumerate(value))
        return next((fault for fault in faults if fault), None)
    shape = SHAPES.get(ty)
    if shape is None:
        fault = _plain_fault(ty, value)
        return fault and f"{place}: {fault}"
    return _shape_fault(place, shape, value)


def _shape_fault(place, shape, value):
    kind, name, parts = shape
    found = type(value).__name__
    if kind == "enum":
        is_one = found == name and getattr(value, "name", None) in parts
        return None if is_one else f"{place}: {_named(value)} is no {name}: it is {name}.{parts[0]} or another of them"
    if kind == "record":
        if found != name:
            return f"{place}: {_named(value)} is no {name}"
        for field in vars(value):
            if field not in parts:
                near = _nearest(field, parts)
                hint = f"; did you mean `{near}`?" if near else f": it has {', '.join(parts)}"
                return f"{place}: {name} has no field `{field}`{hint}"
        faults = (_fault(f"{place}.{field}" if place else field, ty, getattr(value, field, None)) for field, ty in parts.items())
        return next((fault for fault in faults if fault), None)
    cases = {f"{name}_{case}": ty for case, ty in parts.items()}
    if isinstance(value, type) and value.__name__ in cases:
        return f"{place}: {value.__name__} is a class: call it, {value.__name__}({'…' if cases[value.__name__] else ''})"
    if found not in cases:
        near = _nearest(found, list(cases)) or _nearest(f"{name}_{str(value).title()}", list(cases))
        hint = f"; did you mean {near}?" if near else ""
        return f"{place}: {_named(value)} is none of {', '.join(cases)}{hint}"
    ty = cases[found]
    return ty and _fault(f"{place}.{found}", ty, getattr(value, "value", None))


def _place_of(frame_summary):
    name, line, function = frame_summary
    parts = [part for part in name.replace("\\", "/").split("/") if part and not part.isdigit()]
    return f"{'/'.join(parts)}:{line} in {function}"


def _trace(error):
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        # The standard library is at /python; the plugin's own lines say more.
        is_own = code.co_filename != __file__ and not code.co_filename.startswith("/python/")
        if is_own and "rind_sdk" not in code.co_filename:
            frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return [_place_of(frame) for frame in frames[-MAX_FRAMES:]]


def _describe(error):
    """Type, message and place of an exception, innermost call first, and its causes."""
    texts = []
    while error is not None and len(texts) < MAX_CAUSES:
        text = str(error)
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        places = _trace(error)
        texts.append(f"{text} (at {', called at '.join(reversed(places))})" if places else text)
        error = error.__cause__
    return "; caused by ".join(texts)


def _failed(text):
    return Err(_types.Error_Failed(text.encode("utf-8", "replace").decode("utf-8")))


def _checked_error(error):
    """An error that the plugin raised, if the contract has it."""
    value = error.value
    if type(value).__name__ in ERRORS and _text_fault(getattr(value, "value", None)) is None:
        return error
    return _failed(f"Err takes an error such as types.Error_Failed(\"…\"), and was given {_named(value)}")


def _call(interface, function, arguments, result):
    if HAS_LOG:
        _PrintedLines.is_live = True
    random = sys.modules.get("random")
    if random is not None:
        # Its state was stored when the component was built: without this its numbers repeat in every instance.
        random.seed()
    try:
        value = function(*arguments)
    except Err as error:
        raise _checked_error(error) from None
    except BaseException as error:
        raise _failed(_describe(error)) from None
    finally:
        if HAS_LOG:
            sys.stdout.end_call()
            sys.stderr.end_call()
    if result is None:
        return value
    if value is None and result == "observed":
        return _outcomes.Observed(effects=[])
    if value is None:
        raise _failed(f"`{interface}` returned nothing where it returns an outcome; is a `return` missing?")
    fault = _fault("", result, value)
    if fault:
        raise _failed(f"`{interface}` returned what does not fit: {fault.removeprefix(': ')}")
    return value


def _checked(name, parameters, run):
    """A function of the host that raises where an argument is not what its parameter takes."""

    def call(*arguments, **named):
        for at, (parameter, ty) in enumerate(parameters):
            value = arguments[at] if at < len(arguments) else named.get(parameter)
            # What is missing is told of by the function itself.
            if at < len(arguments) or parameter in named:
                fault = ty and _fault(parameter, ty, value)
                if fault:
                    raise TypeError(f"{name}() does not take this: {fault}")
        return run(*arguments, **named)

    call.__name__, call.__doc__ = run.__name__, run.__doc__
    return call


def _check_imports():
    """Puts itself before the functions of the host. The plugin is imported after it, since it may take functions by name."""
    for module, functions in IMPORTS.items():
        host = importlib.import_module(f"wit_world.imports.{module}")
        for name, parameters in functions.items():
            setattr(host, name, _checked(f"{module}.{name}", parameters, getattr(host, name)))
    try:
        handles = importlib.import_module("wit_world.imports.handles")
    except ImportError:
        return
    for own in vars(handles).values():
        for name, parameters in METHODS.items() if isinstance(own, type) else ():
            if name in vars(own):
                setattr(own, name, _checked(name, [["self", None], *parameters], vars(own)[name]))


_check_imports()
_plugin = __import__(MODULE)


def _wrap(interface, name, methods):
    own = getattr(_plugin, name)

    def wrapped(method, result):
        def call(self, *arguments):
            return _call(interface, getattr(self.own, method), arguments, result)

        return call

    def start(self):
        self.own = own()

    members = {method: wrapped(method, result) for method, result in methods.items()}
    return type(name, (), {"__init__": start, **members})


for _interface, (_name, _methods) in RESULTS.items():
    globals()[_name] = _wrap(_interface, _name, _methods)
