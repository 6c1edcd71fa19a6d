"""Operations: what a caller holds, and what works on it."""
