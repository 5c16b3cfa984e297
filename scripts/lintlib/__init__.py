# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The checks behind scripts/lint; each module is one check or one family of them."""
