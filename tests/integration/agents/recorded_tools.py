"""The tools of Codex and Claude Code with the shapes of their schemas, as recorded from their requests. The descriptions are short ones of our own."""


def _object(properties, required=(), **more):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False, **more}


STRING, NUMBER, BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "boolean"}


def _function(name, description, parameters):
    return {"type": "function", "name": name, "description": description, "strict": False, "parameters": parameters}


# A grammar for llguidance, as Codex has one for patches.
PATCH_GRAMMAR = """start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
filename: /(.+)/
add_line: "+" /(.*)/ LF
%import common.LF
"""
CODEX_TOOLS = [
    _function("exec_command", "Runs a command in a terminal.", _object({
        "cmd": {**STRING, "description": "Command."}, "workdir": STRING, "shell": STRING, "login": BOOLEAN, "tty": BOOLEAN,
        "yield_time_ms": NUMBER, "max_output_tokens": NUMBER,
        "sandbox_permissions": {**STRING, "enum": ["use_default", "require_escalated"]}, "justification": STRING,
        "prefix_rule": {"type": "array", "items": STRING}}, ["cmd"])),
    _function("write_stdin", "Writes to a running command.", _object({
        "session_id": NUMBER, "chars": STRING, "yield_time_ms": NUMBER, "max_output_tokens": NUMBER}, ["session_id"])),
    _function("list_mcp_resources", "Lists resources.", _object({"server": STRING, "cursor": STRING})),
    _function("update_plan", "Updates the plan.", _object({
        "explanation": STRING,
        "plan": {"type": "array", "items": _object({"step": STRING, "status": {**STRING, "enum": ["pending", "in_progress", "completed"]}},
                                                   ["step", "status"])}}, ["plan"])),
    _function("request_user_input", "Asks the user.", _object({
        "questions": {"type": "array", "items": _object({
            "id": STRING, "header": STRING, "question": STRING,
            "options": {"type": "array", "items": _object({"label": STRING, "description": STRING}, ["label", "description"])}},
            ["id", "header", "question", "options"])}}, ["questions"])),
    {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR}},
    _function("view_image", "Shows an image file.", _object({"path": STRING, "detail": {**STRING, "enum": ["high", "original"]}}, ["path"])),
    {"type": "web_search", "external_web_access": False},
    {"type": "namespace", "name": "multi_agent", "description": "Agents that help.", "tools": [
        _function("spawn_agent", "Starts an agent.", _object({"message": STRING, "agent_type": STRING, "fork_context": BOOLEAN})),
        _function("wait_agent", "Waits for agents.", _object({"targets": {"type": "array", "items": STRING}, "timeout_ms": NUMBER}, ["targets"]))]},
    _function("get_context_remaining", "How much context there is.", _object({})),
]

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_HUGE = 9007199254740991


def _tool(name, description, properties, required=()):
    return {"name": name, "description": description, "input_schema": _object(properties, required, **_DRAFT)}


CLAUDE_TOOLS = [
    _tool("Bash", "Runs a command.", {
        "command": {**STRING, "description": "The command", "maxLength": 1_000_000}, "timeout": NUMBER, "description": STRING,
        "run_in_background": BOOLEAN, "dangerouslyDisableSandbox": BOOLEAN}, ["command"]),
    _tool("Read", "Reads a file.", {
        "file_path": {**STRING, "maxLength": 4096}, "offset": {"type": "integer", "minimum": 0, "maximum": _HUGE},
        "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": _HUGE}, "pages": STRING}, ["file_path"]),
    _tool("Edit", "Edits a file.", {
        "file_path": STRING, "old_string": STRING, "new_string": {**STRING, "maxLength": 10_000_000}, "replace_all": {"type": "boolean", "default": False}},
          ["file_path", "old_string", "new_string"]),
    _tool("Write", "Writes a file.", {"file_path": STRING, "content": {**STRING, "maxLength": 10_000_000}}, ["file_path", "content"]),
    _tool("Grep", "Searches files.", {
        "pattern": STRING, "path": STRING, "output_mode": {**STRING, "enum": ["content", "files_with_matches", "count"]}, "-n": BOOLEAN, "-i": BOOLEAN,
        "head_limit": NUMBER, "multiline": BOOLEAN}, ["pattern"]),
    _tool("TodoWrite", "Keeps a list.", {
        "todos": {"type": "array", "items": _object({
            "content": {**STRING, "minLength": 1}, "status": {**STRING, "enum": ["pending", "in_progress", "completed"]},
            "activeForm": {**STRING, "minLength": 1}}, ["content", "status", "activeForm"])}}, ["todos"]),
    _tool("AskUserQuestion", "Asks the user.", {
        "questions": {"type": "array", "minItems": 1, "maxItems": 4, "items": _object({
            "question": STRING, "header": STRING, "multiSelect": {"type": "boolean", "default": False},
            "options": {"type": "array", "minItems": 2, "maxItems": 4, "items": _object({"label": STRING, "description": STRING}, ["label", "description"])}},
            ["question", "header", "options", "multiSelect"])},
        "answers": {"type": "object", "propertyNames": STRING, "additionalProperties": STRING}}, ["questions"]),
    _tool("WebFetch", "Reads a page.", {"url": {**STRING, "format": "uri"}, "prompt": STRING}, ["url", "prompt"]),
    _tool("EnterPlanMode", "Plans first.", {}),
    {"name": "ExitPlanMode", "description": "Ends planning.",
     "input_schema": {**_DRAFT, "type": "object", "properties": {"allowedPrompts": {"type": "array", "items": _object(
         {"tool": {**STRING, "enum": ["Bash"]}, "prompt": STRING}, ["tool", "prompt"])}}, "additionalProperties": {}}},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
]


def schema_problem(schema, value, path="$"):
    """What does not fit, of the keywords above; "" if all does."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = kinds.get(schema.get("type"), object)
    if not isinstance(value, kind) or (isinstance(value, bool) and schema.get("type") in ("integer", "number")):
        return f"{path}: {value!r} is no {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path}: {value!r} is not in {schema['enum']}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return f"{path}: no {missing}"
        rest = schema.get("additionalProperties", {})
        for name, member in value.items():
            inner = properties.get(name, rest)
            if inner is False:
                return f"{path}: {name!r} is not known"
            if problem := schema_problem(inner or {}, member, f"{path}.{name}"):
                return problem
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{path}: {len(value)} items"
        return next(filter(None, (schema_problem(schema.get("items", {}), item, f"{path}[{i}]") for i, item in enumerate(value))), "")
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return f"{path}: {len(value)} characters"
    return ""
