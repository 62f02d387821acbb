# Prints which interfaces of the contract the classes of a module export, its other classes, which imports its code has, and whether it prints. It parses and never runs
# the module, which works only inside a component. Called as: python3 -c … MODULE KNOWN,EXPORTS
import ast, json, pathlib, sys

module, known = sys.argv[1], sys.argv[2].split(",")
exports, others, imports, seen, waiting, prints = set(), [], set(), set(), [module], False


def camel(name):
    return "".join(word.capitalize() for word in name.split("-"))


def note(path):
    """Notes an import of the contract, or a module of the plugin's own."""
    for prefix in ("wit_world.imports.", "rind_sdk."):
        if path.startswith(prefix):
            imports.add(path[len(prefix):].split(".")[0].replace("_", "-"))
    global prints
    prints = prints or path.split(".")[0] in ("logging", "pprint", "warnings")
    waiting.append(path)


while waiting:
    name = waiting.pop()
    file = pathlib.Path(*name.split("."))
    options = [file.with_suffix(".py"), file / "__init__.py"]
    path = next((option for option in options if option.is_file()), None)
    if path is None or name in seen or name.split(".")[0] == "rind_sdk":
        continue
    seen.add(name)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8-sig"), str(path))
    except SyntaxError as error:
        sys.exit(f"{path}:{error.lineno}: {error.msg}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "print" or isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr"):
            prints = True
        if isinstance(node, ast.Import):
            for alias in node.names:
                note(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name.split(".")[: -node.level] if path.name != "__init__.py" else name.split(".")
                base = ".".join(above + ([base] if base else []))
            note(base)
            for alias in node.names:
                note(f"{base}.{alias.name}" if base else alias.name)
    if name == module:
        for node in tree.body:
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found = [point for point in known if camel(point) in names]
            exports.update(found)
            if isinstance(node, ast.ClassDef) and not found:
                others.append([node.name, node.lineno])

print(json.dumps({"exports": sorted(exports), "others": others, "imports": sorted(imports), "prints": prints}))
