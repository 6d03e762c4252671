"""The model of a program's source: its files, their scopes, what names in them stand for. Nothing of it runs.

`files` and `notebooks` read. `scopes` says of one file what binds its names. `meaning` and `releases` say what names
stand for, and which code runs on which release; `objects` says what objects are. `uses` notes what a file uses.
`programs` puts files together; `signs` and `choices` say what the program needs.
"""
