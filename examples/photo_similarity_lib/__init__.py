# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What photo_similarity.py is made of."""
