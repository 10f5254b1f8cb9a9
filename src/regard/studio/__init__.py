"""The studio: a local web page about attention, reachable from this machine only. Needs the `studio` extra (fastapi, uvicorn).

    regard studio --model runs/my-model

pages/   one folder per page: its endpoints (__init__.py), its drawing (page.js), its texts (texts.js); page.py has the classes of a page
server   serving.py starts it, app.py builds the application, guard.py checks every request, requests.py and job_routes.py are its routes,
         initial_results.py what pages show before the first request, static_files.py the files the browser may load
worker   jobs.py runs one heavy job at a time in a process of its own, worker.py; worker_state.py is what that process keeps between jobs
models   library.py lists them, memory.py checks whether there is memory for the work
static/  the shell (main.js, texts.js), requests to the server and the controls pages share; the rest is in regard.web
"""
