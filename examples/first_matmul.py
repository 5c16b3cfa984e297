# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Eight lines to a first checked result: a product on two hosts, as processes of this machine."""

import numpy as np

import gpugoblin as gg

rng = np.random.default_rng(0)
a, b = rng.standard_normal((2, 2000, 2000), np.float32)
with gg.local(hosts=2) as lab:  # or gg.connect() to a lab node
    job = lab.submit("matmul", a=a, b=b)  # lab.matmul(a, b) does this and the next in one call
    c = job.result(progress=True)
    print(job.explain())

print("largest difference to NumPy:", np.abs(c - a @ b).max())
