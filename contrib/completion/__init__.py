"""Completion for bash, zsh and fish, made of the commands themselves.

python -m contrib.completion FOLDER    writes bash/archivefs, zsh/_archivefs and fish/archivefs.fish into FOLDER

The scripts know all commands, so that a TAB does not wait for Python.  ``model.py`` says what may be offered where,
``bash.py``, ``zsh.py`` and ``fish.py`` write it down in the language of a shell.
"""
