"""Pretraining corpora from many datasets: the packages of the folders beside this one, under one name."""
