#!/usr/bin/env python3
"""Plays JSON schemas with valid and invalid instances through the constraint engine.

    play_schemas.py --engine build/release/bin/lockstep-constraint-engine --packages .models/llguidance FILE.jsonl[.xz] ...

A line of a file has a schema and tests: {"schema": ..., "tests": [{"valid": true, "data": ...}, ...]}. Every invalid instance
must be rejected: exit code 1 if one was accepted. Valid ones should be accepted. The engine writes some values in one way only
(the integer 1 is never 1.0), so the others are listed. Schemas that the engine refuses are counted by their reason. Members of
an object are put into the order of the schema's properties first, because the engine enforces it.
"""
import argparse
import collections
import json
import lzma
import re
import sys
import time

import engine_client


def lines_of(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def resolve(schema, root, depth=0):
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#") and depth < 20:
        place = root
        for part in schema["$ref"][1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or part not in place:
                return {}
            place = place[part]
        schema, depth = place, depth + 1
    return schema if isinstance(schema, dict) else {}


def branches(schema, root, depth=0):
    """The schema and those that it combines."""
    schema = resolve(schema, root)
    yield schema
    if depth < 6:
        for key in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(key, ()) if isinstance(schema.get(key), list) else ():
                yield from branches(part, root, depth + 1)


def in_order(data, schemas, root, depth=0):
    """The same instance, with the members of objects in the order of the schema's properties."""
    if depth > 40:
        return data
    if isinstance(data, list):
        items = [part for schema in schemas for part in [schema.get("items")] if isinstance(part, dict)]
        prefix = [schema.get("prefixItems") or (schema["items"] if isinstance(schema.get("items"), list) else []) for schema in schemas]
        out = []
        for place, value in enumerate(data):
            parts = items + [parts[place] for parts in prefix if isinstance(parts, list) and place < len(parts)]
            out.append(in_order(value, [b for part in parts for b in branches(part, root)], root, depth + 1))
        return out
    if not isinstance(data, dict):
        return data
    order, members = [], collections.defaultdict(list)
    for schema in schemas:
        properties = schema.get("properties")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            order.append(name)
            members[name].append(part)
        rest = schema.get("additionalProperties")
        for name in data:
            if isinstance(rest, dict) and name not in (properties or {}):
                members[name].append(rest)
    names = [name for name in dict.fromkeys(order) if name in data]
    names += [name for name in data if name not in names]
    return {name: in_order(data[name], [b for part in members[name] for b in branches(part, root)], root, depth + 1)
            for name in names}


def reason_of(message):
    keys = re.search(r"Unimplemented keys: \[(.*?)\]", message)
    if keys:
        return "keyword " + keys[1]
    return re.sub(r"[\"'`(\[{].*", "", message).strip()[:60] or message[:60]


def play(engine, case, counts, refused, wrong, with_masks):
    schema = json.dumps(case["schema"], ensure_ascii=False)
    start = time.monotonic()
    try:
        engine.check("S", schema)
    except engine_client.Refused as error:
        refused[reason_of(str(error))] += 1
        return
    except engine_client.Ended as error:
        refused[f"ended: {error}"] += 1
        engine.start()
        return
    finally:
        counts["compile seconds"] += time.monotonic() - start
    counts["schemas"] += 1
    for test in case["tests"]:
        data = in_order(test["data"], list(branches(case["schema"], case["schema"])), case["schema"])
        output = json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")
        fits = engine.fits("S", schema, output)
        counts["valid" if test["valid"] else "invalid"] += 1
        if fits != test["valid"]:
            wrong.append((schema, output, test["valid"]))
        elif fits and with_masks and not engine.masks_agree("S", schema, output):
            wrong.append((schema, output, "mask"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--engine", required=True)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--limit", type=int, default=10**9, help="schemas of each file")
    parser.add_argument("--masks", action="store_true", help="look at the mask of every byte of valid instances, too")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    engine = engine_client.Engine(options.engine, options.packages)
    print(engine.version)
    all_right = True
    for path in options.files:
        counts, refused, wrong = collections.Counter(), collections.Counter(), []
        for number, case in enumerate(lines_of(path)):
            if number == options.limit:
                break
            play(engine, case, counts, refused, wrong, options.masks)
        print(f"{path}: {counts['schemas']} schemas enforced, {sum(refused.values())} refused; {counts['valid']} valid and "
              f"{counts['invalid']} invalid instances; {len(wrong)} judged wrongly, "
              f"{sum(expected is not True for _, _, expected in wrong)} of them accepted; "
              f"{counts['compile seconds'] / max(1, counts['schemas'] + sum(refused.values())) * 1000:.1f} ms a schema")
        for reason, count in refused.most_common():
            print(f"  refused {count:4} {reason}")
        for schema, output, expected in wrong[:20]:
            print(f"  WRONG expected {expected}: {output[:200].decode('utf-8', 'replace')}\n    {schema[:400]}")
        all_right = all_right and all(expected is True for _, _, expected in wrong)
    engine.close()
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
