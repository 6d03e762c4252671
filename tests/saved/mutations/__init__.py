"""Files as a stranger might send them: seeded mutations of what releases and today's frameworks have written.

`cases.make(kind, seed, ...)` writes one; `cases.KINDS` lists the kinds. The same seed gives the same file, up to the
date in it. Whatever the mutations put in that could do harm does it in the canary's folder, which is watched.
"""
