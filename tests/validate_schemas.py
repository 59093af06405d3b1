"""Judges documents by our JSON Schemas with python3-jsonschema, a validator that shares no code with us.

Each line of the file is [kind, name, document, accepted]; the first of a kind is its schema, named "schema". What our reader accepts, the schema must accept, or an editor
would mark good files; what it refuses for an unknown key ("surplus ..."), the schema must refuse. Prints one line for
each fault and, at last, how many documents were judged and how many of the refused ones the schema refuses, too.
"""
import json
import sys

import jsonschema

validators = {}
judged = refused = caught = 0
for line in open(sys.argv[1]):
    kind, name, document, accepted = json.loads(line)
    if kind not in validators:
        assert name == "schema", f"{kind}: no schema before its first document"
        jsonschema.Draft202012Validator.check_schema(document)
        validators[kind] = jsonschema.Draft202012Validator(document)
        continue
    judged += 1
    error = next(validators[kind].iter_errors(document), None)
    refused += not accepted
    caught += not accepted and error is not None
    if accepted and error is not None:
        print(f"{kind} {name}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    if name.startswith("surplus") and error is None:
        print(f"{kind} {name}: the schema accepts an unknown key")
print(f"judged {judged} refused {refused} caught {caught}")
