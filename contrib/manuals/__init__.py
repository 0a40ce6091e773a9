"""The manual pages, made of the commands themselves.

python -m contrib.manuals FOLDER    writes man1/archivefs.1 and so on into FOLDER
"""
