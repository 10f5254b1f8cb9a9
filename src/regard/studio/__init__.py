"""The studio: attention on a page, served to this machine alone. Needs the `studio` extra (fastapi, uvicorn).

    regard studio --model runs/my-model

server   serving.py starts it, app.py puts it together, guard.py keeps strangers out, jobs.py runs one heavy job at a time in a process
         of its own (worker.py)
rooms/   what each room of the page asks: the requests it takes, the light work it does at once
tasks/   the heavy work, done in the worker: translating, looking, meanings
static/  the page: plain modules, one table of words a language
"""
