"""The studio: attention in the browser, served to this machine alone. Needs the `studio` extra (fastapi, uvicorn).

    regard studio --model runs/my-model

pages/   one folder a page: what it answers (__init__.py), how it is drawn (page.js), its texts (texts.js); page.py says what a page is
server   serving.py starts it, app.py puts it together, guard.py checks every request, requests.py and job_routes.py are its routes,
         initial_results.py what pages show before anything was asked, static_files.py what the browser may load
worker   jobs.py runs one heavy job at a time in a process of its own, worker.py; bench.py is what that process keeps between jobs
models   library.py says which there are, memory.py whether there is memory for the work
static/  the shell (main.js, texts.js), requests to the server and the controls pages share; the rest is in regard.web
"""
